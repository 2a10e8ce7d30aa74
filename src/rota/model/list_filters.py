"""Which jobs, schedules, queues and workers a list shows, and in what order: for type checkers,
and for the edges that offer the same choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

JobOrder = Literal["name", "newest", "changed"]
ScheduleOrder = Literal["name", "next", "last", "newest", "changed"]
QueueOrder = Literal["name", "longest", "oldest"]
CalendarOrder = Literal["name", "changed"]
TimeOrder = Literal["newest", "oldest"]
LedgerPart = Literal["exceptions", "backfilled"]

WorkerStatus = Literal[
    "live", "draining", "stopping", "silent", "stuck", "failing", "asleep", "lost", "gone"
]


class JobFilters(TypedDict, total=False):
    """`text` is part of the name or the description; `metadata` names values that must be there,
    compared as text."""

    system: bool
    text: str | None
    tag: str | None
    queue: str | None
    enabled: bool | None
    metadata: Mapping[str, Any] | None


class ScheduleFilters(TypedDict, total=False):
    """`text` is looked for in name, job, description and zone, whatever its case; `queue` is the
    one that its runs go to. `attention` are those that need somebody: late, missed, parked or
    paused by Rota, Rota's own among them."""

    system: bool
    attention: bool
    job: str | None
    queue: str | None
    tag: str | None
    tenant: str | None
    state: str | None
    text: str | None
    calendar: str | None
    metadata: Mapping[str, Any] | None


class QueueFilters(TypedDict, total=False):
    paused: bool | None


class LimitFilters(TypedDict, total=False):
    tenant: str | None
    kind: str | None
    job: str | None
    queue: str | None


class WorkerFilters(TypedDict, total=False):
    """Those that have left, and those that were lost more than ten minutes ago, are listed on
    request: by `include_gone`, or the status `gone` or `lost`."""

    include_gone: bool
    status: WorkerStatus | None
    host: str | None
