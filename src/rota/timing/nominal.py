"""A nominal time of a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from rota.errors import TimingError

Note = Literal["", "dst_gap", "dst_gap_skipped", "dst_fold_first", "dst_fold_second"]

# Arithmetic near the ends of datetime's range overflows, by as much as the longest interval;
# nothing repeats out there.
EARLIEST: Final = datetime(1000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9800, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Nominal:
    """An instant in UTC, and the effect of a clock change on it.

    `dst_gap`: its local time does not exist, and it was moved to right after the gap.
    `dst_gap_skipped`: the same, but the schedule skips it; `at` is when it would have run.
    `dst_fold_first`, `dst_fold_second`: its local time occurs twice, this is that pass.
    `walls` keeps the local times as written, for display; they are not part of its identity.
    """

    at: datetime
    note: Note = ""
    walls: tuple[datetime, ...] = field(default=(), compare=False, repr=False)

    @property
    def is_skipped(self) -> bool:
        return self.note == "dst_gap_skipped"


def in_utc(instant: datetime, name: str) -> datetime:
    """Return the instant in UTC. An instant without an offset is refused: a zone is never
    guessed."""
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        raise TimingError(
            f"{name} {instant.isoformat(sep=' ')} has no time zone",
            hint="give an offset, as in 2026-03-08T09:00:00+01:00 or …Z",
        )
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        return EARLIEST if instant.year < 5000 else LATEST
