"""The record of a log line, and the result of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, get_args

from rota.errors import SearchError
from rota.model.fields import Field

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[str, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One row of `rota.logs`."""

    at: Annotated[datetime, Field("When it was written.")]
    run_id: Annotated[int, Field("The run that wrote it.", 42)]
    attempt: Annotated[int, Field("The attempt that wrote it.", 3)]
    seq: Annotated[int, Field("Its number within the attempt.", 1)]
    worker: Annotated[int, Field("Worker that wrote it.", 3)]
    level: Annotated[str, Field("debug, info, warning, error or critical.", "info")]
    message: Annotated[str, Field("The text.", "sending")]
    fields: Annotated[dict[str, Any] | None, Field("Structured fields.", {"user": 7})]
    job: Annotated[str, Field("The job of the run.", "send_welcome")] = ""
    tenant: Annotated[str, Field("Tenant of the run.", "")] = ""

    @property
    def key(self) -> LogKey:
        return LogKey(self.at, self.run_id, self.attempt, self.seq)


class LogKey(NamedTuple):
    """A position in the order of lines."""

    at: datetime
    run_id: int
    attempt: int
    seq: int

    def __str__(self) -> str:
        """Write it as a cursor: safe in a URL, exact to the microsecond."""
        micros = (self.at - _EPOCH) // timedelta(microseconds=1)
        return f"{micros}.{self.run_id}.{self.attempt}.{self.seq}"

    @classmethod
    def parse(cls, text: str) -> LogKey:
        try:
            micros, run_id, attempt, seq = map(int, text.split("."))
            at = _EPOCH + timedelta(microseconds=micros)
        except (ValueError, OverflowError):
            raise SearchError(f"{text!r} is not a search cursor") from None
        return cls(at, run_id, attempt, seq)


@dataclass(frozen=True, slots=True)
class LogPage:
    """The matching lines, newest first. `searched_back_to` is how far back the search got:
    everything newer was searched. `cursor` continues from there; None if there are no older
    lines."""

    lines: list[LogLine]
    searched_back_to: datetime | None
    cursor: str | None


def levels_from(least: str | None, levels: Sequence[str] | None) -> list[str] | None:
    """Return the levels of a search; None means all."""
    chosen = [
        level
        for level in LEVELS
        if (levels is None or level in levels)
        and (least is None or LEVELS.index(level) >= LEVELS.index(least))
    ]
    return None if len(chosen) == len(LEVELS) else chosen
