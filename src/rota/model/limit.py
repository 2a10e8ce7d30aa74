"""A limit as a reader sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rota.model.words import duration

LimitKind = Literal["concurrency", "rate", "sequence"]
OnFull = Literal["wait", "skip", "replace", "cancel_running"]
NextAfter = Literal["success", "end"]
LimitOrder = Literal["name", "fullest", "longest"]
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class LimitInfo:
    """A limit with its rule, scope and current use.

    Without a key there is one counter; with a key, one for each value. `in_use` and `waiting` are
    totals of all counters; `keys` is the number of counters, `full` how many of them are full.
    `waiting` is counted up to ten thousand.
    """

    name: str
    tenant: str
    kind: LimitKind
    cap: int
    period_seconds: float | None
    burst: int | None
    cost: str | None
    next_after: NextAfter | None
    on_full: OnFull
    queue: str | None
    jobs: list[str] | None
    schedule: str | None
    key: str | None
    in_use: int
    waiting: int
    keys: int
    full: int
    admitted: int
    is_declared: bool
    is_edited: bool
    updated_at: datetime
    updated_by: str

    @property
    def scope(self) -> str:
        """What it applies to, in words."""
        parts = [
            f"jobs {', '.join(self.jobs)}" if self.jobs and len(self.jobs) > 1 else "",
            f"job {self.jobs[0]}" if self.jobs and len(self.jobs) == 1 else "",
            f"queue {self.queue}" if self.queue else "",
            f"schedule {self.schedule}" if self.schedule else "",
            f"tenant {self.tenant}" if self.tenant else "",
        ]
        return ", ".join(part for part in parts if part) or "all runs"

    @property
    def rule(self) -> str:
        """How many runs it allows, in words."""
        each = f" for each {self.key}" if self.key else ""
        if self.kind == "sequence":
            after = "success" if self.next_after == "success" else "end"
            return f"one at a time, after the {after} of the previous run{each}"
        if self.kind == "concurrency":
            return f"{self.cap:,} at once{each}"
        burst = f", burst {self.burst:,}" if self.burst else ""
        return f"{self.cap:,} in {duration(self.period_seconds)}{burst}{each}"


@dataclass(frozen=True, slots=True)
class LimitKey:
    """One counter of a limit. `wait_until`: when a rate has room again. `blocked_by`: the failed
    run whose success a sequence waits for."""

    value: str
    in_use: int
    waiting: int
    wait_until: datetime | None
    blocked_by: int | None


@dataclass(frozen=True, slots=True)
class LimitRun:
    """A run that holds a slot of a limit, or waits for one."""

    id: int
    job: str
    queue: str
    state: str
    value: str
    since: datetime
    worker: int | None


@dataclass(frozen=True, slots=True)
class LimitDetails:
    """A limit, its counters, the runs that hold a slot and the runs that wait for one; at most 100
    of each."""

    limit: LimitInfo
    keys: list[LimitKey]
    holders: list[LimitRun]
    waiters: list[LimitRun]
