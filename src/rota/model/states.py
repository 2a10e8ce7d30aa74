"""The states of runs and attempts; docs/lifecycle.md draws them."""

from __future__ import annotations

from typing import Literal, get_args

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

# Sets of states, each spelled out here only.
RUN_STATES: tuple[RunState, ...] = get_args(RunState)
END_STATES: tuple[EndState, ...] = get_args(EndState)
OPEN_STATES = tuple(state for state in RUN_STATES if state not in END_STATES)
RETRIABLE_STATES: tuple[EndState, ...] = ("failed", "cancelled")
FAILED_ATTEMPT_STATES: tuple[AttemptState, ...] = ("failed", "timed_out", "lost")
