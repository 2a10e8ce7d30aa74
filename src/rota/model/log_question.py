"""The validated filter of a log search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from rota.errors import SearchError
from rota.model.log import LogKey, levels_from
from rota.model.log_text import LogText

MOST_LINES = 1000
_NOTHING = LogText()


class LogFilters(TypedDict, total=False):
    """Filters of log searches and tails, for type checkers. `level` is the minimum."""

    job: str | None
    run_id: int | None
    attempt: int | None
    level: str | None
    levels: Sequence[str] | None
    tenant: str | None
    queue: str | None
    worker: int | None


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """Lines that match all of its parts. A `since` or `until` that is a timedelta counts back from
    now."""

    text: LogText = _NOTHING
    job: str | None = None
    run_id: int | None = None
    attempt: int | None = None
    levels: tuple[str, ...] | None = None
    tenant: str | None = None
    queue: str | None = None
    worker: int | None = None
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    limit: int = 100
    cursor: LogKey | None = None

    @classmethod
    def of(
        cls,
        text: str,
        filters: LogFilters,
        *,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> LogQuestion:
        known: dict[str, Any] = dict(filters)
        for name in known:
            if name not in LogFilters.__annotations__:
                there = ", ".join(LogFilters.__annotations__)
                raise SearchError(f"logs: unknown filter {name}", hint=f"choose from {there}")
        levels = levels_from(known.pop("level", None), known.pop("levels", None))
        if not 1 <= limit <= MOST_LINES:
            raise SearchError(f"limit must be from 1 to {MOST_LINES}, not {limit}")
        for name, at in (("since", since), ("until", until)):
            if isinstance(at, datetime) and at.tzinfo is None:
                raise SearchError(f"{name} needs a time zone: {at.isoformat()}")
        return cls(
            text=LogText.parse(text),
            levels=None if levels is None else tuple(levels),
            since=since,
            until=until,
            limit=limit,
            cursor=LogKey.parse(cursor) if cursor else None,
            **known,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The filters, under the names of the statements' parameters."""
        return {
            "job": self.job,
            "attempt": self.attempt,
            "levels": None if self.levels is None else list(self.levels),
            "tenant": self.tenant,
            "queue": self.queue,
            "worker": self.worker,
            # Filled in later: the jobs of that queue are read first.
            "sole": [],
            "mixed": [],
            "names": [name for name, _ in self.text.fields],
            "values": [value for _, value in self.text.fields],
            "other_names": [name for name, _ in self.text.other_fields],
            "other_values": [value for _, value in self.text.other_fields],
        }
