"""Lists the coming times of a timing for people, and marks days with clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Annotated

from rota.errors import TimingError
from rota.model.fields import Field
from rota.timing.nominal import Nominal, in_utc
from rota.timing.timing import Timing
from rota.timing.zones import Shift, shift_over, shifts, wall_at, zone

# A preview is read by people; longer ranges are cut.
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One coming time: the instant, the local time of the schedule and of the viewer, and a note.

    A row that is skipped is a missing local time; `at` is when it would have run.
    """

    at: Annotated[datetime, Field("The instant.")]
    local: Annotated[datetime, Field("Local time in the schedule's time zone.")]
    viewer_local: Annotated[
        datetime | None, Field("Local time in the viewer's time zone, if given.")
    ]
    note: Annotated[str, Field("Note: a clock change, or a day excluded by the calendar.", "")] = ""
    is_skipped: Annotated[bool, Field("Whether it will be skipped.", False)] = False

    def to_json(self) -> dict[str, str | bool | None]:
        return {
            "at": self.at.isoformat().replace("+00:00", "Z"),
            "local": self.local.isoformat(),
            "viewer_local": self.viewer_local.isoformat() if self.viewer_local else None,
            "note": self.note,
        }


def preview(
    timing: Timing,
    after: datetime,
    count: int | None = None,
    until: datetime | None = None,
    viewer_zone: str | None = None,
    include_skipped: bool = False,
) -> list[PreviewRow]:
    """Return the next `count` times after an instant, or all up to and including `until`, or both.

    A time skipped for a gap is mentioned in the note of the next row, or has its own row with
    `include_skipped`.
    """
    if count is None and until is None:
        raise TimingError("a preview needs a count or an end")
    times = timing.times(after)
    if until is not None:
        end = in_utc(until, "until")
        times = takewhile(lambda nominal: nominal.at <= end, times)
    viewer = None if viewer_zone is None else zone(viewer_zone)
    rows = _rows(times, timing.tz, viewer, include_skipped)
    return list(islice(rows, min(MOST_ROWS if count is None else max(0, count), MOST_ROWS)))


def _rows(
    times: Iterator[Nominal], tz: tzinfo, viewer: tzinfo | None, include_skipped: bool
) -> Iterator[PreviewRow]:
    skipped = ""
    for nominal in times:
        note = _note(nominal, tz)
        if nominal.is_skipped and not include_skipped:
            skipped = f"before it, on {wall_at(nominal.at, tz):%Y-%m-%d}, {note}"
            continue
        yield PreviewRow(
            nominal.at,
            nominal.at.astimezone(tz),
            nominal.at.astimezone(viewer) if viewer else None,
            "; ".join(part for part in (skipped, note) if part),
            nominal.is_skipped,
        )
        skipped = ""


def _note(nominal: Nominal, tz: tzinfo) -> str:
    walls = " and ".join(_clock(wall) for wall in nominal.walls)
    exist = "do not exist" if len(nominal.walls) > 1 else "does not exist"
    local = _clock(wall_at(nominal.at, tz))
    match nominal.note:
        case "dst_gap":
            return f"clocks go forward: {walls} {exist}, runs at {local}"
        case "dst_gap_skipped":
            return f"clocks go forward: {walls} {exist}, skipped"
        case "dst_fold_first":
            return f"clocks go back: {walls} comes twice, this is the first"
        case "dst_fold_second":
            return f"clocks go back: {walls} comes twice, this is the second"
    return _day_note(nominal.at, tz)


def _day_note(at: datetime, tz: tzinfo) -> str:
    """Return a note for a time without a policy effect, if the clocks change on its local day."""
    wall = wall_at(at, tz)
    shift = shift_over(wall, tz)
    if shift:
        is_second = at >= shift.at
        which = "second" if is_second else "first"
        return f"clocks go back: {_clock(wall)} comes twice, this is the {which}"
    for shift in _shifts_of_day(wall, tz):
        way = "forward" if shift.is_gap else "back"
        old, new = _clock(shift.wall_before), _clock(shift.wall_after)
        return f"clocks go {way} on this day: {old} becomes {new}"
    return ""


def _shifts_of_day(wall: datetime, tz: tzinfo) -> list[Shift]:
    """Return the changes of a local day. A change at midnight belongs to both days: the one it ends
    and the one it begins."""
    start = datetime.combine(wall.date(), time())
    end = start + timedelta(days=1)
    years = {start.year, (start - timedelta(days=1)).year, end.year}
    near = [shift for year in sorted(years) for shift in shifts(tz, year)]
    return [it for it in near if start <= it.wall_before < end or start <= it.wall_after < end]


def _clock(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"
