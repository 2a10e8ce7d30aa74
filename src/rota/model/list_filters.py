"""The filters and orders of the lists of jobs, schedules and queues: for type checkers,
and for interfaces that offer the same choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

ScheduleOrder = Literal["name", "next", "last", "newest", "changed"]
TimeOrder = Literal["newest", "oldest"]
LedgerPart = Literal["exceptions", "backfilled"]


class ScheduleFilters(TypedDict, total=False):
    """Filters of `app.schedules.list`, for type checkers. `text` is part of the name, job,
    description or time zone, ignoring case; `queue` is the queue of its runs. `attention`: only
    schedules that need attention (late, missed, parked, or paused by Rota), including Rota's
    own."""

    system: bool
    attention: bool
    job: str | None
    queue: str | None
    tag: str | None
    tenant: str | None
    state: str | Sequence[str] | None
    states: Sequence[str] | None  # another name, as in `app.runs.list`
    text: str | None
    calendar: str | None
    metadata: Mapping[str, Any] | None
