"""Timings with a single instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from rota.errors import TimingError
from rota.timing.dst import Fold, Gap
from rota.timing.nominal import Nominal
from rota.timing.zones import shift_over


@dataclass(frozen=True, slots=True)
class OnceRule:
    """A single time, `run_at`; after it there is none, even if it was missed."""

    run_at: datetime

    def times(self, after: datetime) -> Iterator[Nominal]:
        if self.run_at > after:
            yield Nominal(self.run_at)


def instant_of(
    wall: datetime, tz: tzinfo, gap: Gap = "run_after", fold: Fold = "first"
) -> datetime:
    """Return the instant of a local time that a person wrote, for interfaces that read `--at
    09:00`.

    A missing time is the moment right after the gap, or an error if gaps are to be skipped.
    """
    shift = shift_over(wall, tz)
    if shift is None:
        return wall.replace(tzinfo=tz).astimezone(UTC)
    if not shift.is_gap:
        offset = shift.after if fold == "second" else shift.before
        return (wall - offset).replace(tzinfo=UTC)
    if gap == "skip":
        raise TimingError(
            f"{wall:%Y-%m-%d %H:%M} does not exist in {tz}: the clocks go forward over it",
            hint=f"the next local time is {shift.wall_after:%H:%M}",
        )
    return shift.at
