"""The states of runs and attempts; docs/lifecycle.md draws them."""

from __future__ import annotations

from typing import Literal

RunState = Literal["blocked", "scheduled", "queued", "running", "succeeded", "failed", "cancelled"]
EndState = Literal["succeeded", "failed", "cancelled"]
AttemptState = Literal[
    "running", "succeeded", "failed", "snoozed", "cancelled", "timed_out", "lost"
]

ScheduleState = Literal["active", "pending", "paused", "disabled", "finished", "parked"]
WorkerState = Literal["live", "stopping", "gone", "lost"]
WorkerStatus = Literal[
    "live", "failing", "draining", "stopping", "silent", "stuck", "asleep", "lost", "gone"
]
JobKind = Literal["python", "sql", "flow"]
Decision = Literal["ran", "caught_up", "skipped", "missed", "superseded"]
Strategy = Literal["on_demand", "cron", "interval", "once", "init", "event"]

OPEN_STATES: frozenset[str] = frozenset({"blocked", "scheduled", "queued", "running"})
END_STATES: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
