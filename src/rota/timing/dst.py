"""Converts the local times of an expression to instants, across clock changes.

Debian cron's rules apply. An expression whose minute or hour begins with `*` follows real time: it
ignores the missing hour and runs in both passes of the repeated one. Any other expression names
times of day: a missing time runs once right after the gap, a repeated one runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby, takewhile
from typing import Literal

from rota.timing.nominal import LATEST, Nominal, Note
from rota.timing.zones import Shift, offset_at, shift_over, steady_until, wall_at

Gap = Literal["run_after", "skip"]
Fold = Literal["first", "second", "both"]
# Returns the local times of an expression strictly after a local time, in order.
Walls = Callable[[datetime], Iterator[datetime]]

_SECOND = timedelta(seconds=1)


def real_times(walls: Walls, tz: tzinfo, after: datetime) -> Iterator[Nominal]:
    """Yield every instant at which the zone's clocks show a local time of the expression.

    Between two changes a local time is an instant plus a constant, so each such stretch is searched
    separately. (cronsim fails when it searches across changes, see its test.)
    """
    start = after.replace(microsecond=0) + _SECOND
    while start < LATEST:
        offset, end = offset_at(start, tz), steady_until(start, tz)
        for wall in walls(start.replace(tzinfo=None) + offset - _SECOND):
            at = (wall - offset).replace(tzinfo=UTC)
            if at >= end:
                break
            yield Nominal(at)
        else:
            return
        start = end


def fixed_times(
    walls: Walls, tz: tzinfo, after: datetime, gap: Gap, fold: Fold
) -> Iterator[Nominal]:
    """Yield each local time of the expression once, moved or repeated according to the policies."""
    days = takewhile(_is_near, walls(_wall_to_start(after, tz)))
    return (it for it in _single(_placed(days, tz, gap, fold)) if it.at > after)


def _is_near(wall: datetime) -> bool:
    return wall.year < LATEST.year


def _wall_to_start(after: datetime, tz: tzinfo) -> datetime:
    """Return the local time to search from. Within a repeated hour, local times already passed may
    still have their second pass."""
    wall = wall_at(after, tz)
    shift = shift_over(wall, tz)
    return shift.wall_after - _SECOND if shift else wall


def _placed(walls: Iterable[datetime], tz: tzinfo, gap: Gap, fold: Fold) -> Iterator[Nominal]:
    for shift, group in groupby(walls, key=lambda wall: shift_over(wall, tz)):
        if shift is None:
            for wall in group:
                yield Nominal(wall.replace(tzinfo=tz).astimezone(UTC))
        elif shift.is_gap:
            note: Note = "dst_gap" if gap == "run_after" else "dst_gap_skipped"
            yield Nominal(shift.at, note, tuple(group))
        else:
            yield from _repeated(shift, list(group), fold)


def _repeated(shift: Shift, walls: list[datetime], fold: Fold) -> Iterator[Nominal]:
    """Yield all times of the first pass before those of the second."""
    for wall in walls if fold != "second" else ():
        yield Nominal((wall - shift.before).replace(tzinfo=UTC), "dst_fold_first", (wall,))
    for wall in walls if fold != "first" else ():
        yield Nominal((wall - shift.after).replace(tzinfo=UTC), "dst_fold_second", (wall,))


def _single(times: Iterable[Nominal]) -> Iterator[Nominal]:
    """Yield one time per instant: a time moved out of a gap may coincide with one right after
    it."""
    held: Nominal | None = None
    for each in times:
        if held and held.at != each.at:
            yield held
        if held and held.at == each.at and not held.is_skipped:
            each = held
        held = each if each.note.startswith("dst_gap") else None
        if held is None:
            yield each
    if held:
        yield held
