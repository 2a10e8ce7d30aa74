"""The states of runs and attempts; docs/lifecycle.md draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from rota.errors import FilterError

RunState = Literal["blocked", "scheduled", "queued", "running", "succeeded", "failed", "cancelled"]
EndState = Literal["succeeded", "failed", "cancelled"]
AttemptState = Literal[
    "running", "succeeded", "failed", "snoozed", "cancelled", "timed_out", "lost"
]

ScheduleState = Literal["active", "pending", "paused", "disabled", "finished", "parked", "orphaned"]
WorkerState = Literal["live", "stopping", "gone", "lost"]
WorkerStatus = Literal[
    "live", "failing", "draining", "stopping", "silent", "stuck", "asleep", "lost", "gone"
]
JobKind = Literal["python", "sql"]
Decision = Literal["ran", "caught_up", "skipped", "missed", "superseded"]
# Decisions for manual runs and backfills of a schedule.
ManualKind = Literal["triggered", "backfilled"]
Strategy = Literal["on_demand", "cron", "interval", "once", "init", "event"]

# Sets of states, each defined only here.
RUN_STATES: tuple[RunState, ...] = get_args(RunState)
END_STATES: tuple[EndState, ...] = get_args(EndState)
OPEN_STATES = tuple(state for state in RUN_STATES if state not in END_STATES)
RETRIABLE_STATES: tuple[EndState, ...] = ("failed", "cancelled")
FAILED_ATTEMPT_STATES: tuple[AttemptState, ...] = ("failed", "timed_out", "lost")


def wanted_states(
    state: str | Sequence[str] | None, states: str | Sequence[str] | None, known: Any
) -> tuple[str, ...] | None:
    """Return the states of a filter, which every list accepts under two names, for one state or
    several; `known` is their Literal. None means all. Raise FilterError for both names, or for an
    unknown state."""
    if state is not None and states is not None:
        raise FilterError("state and states are the same filter; pass only one of them")
    given = state if states is None else states
    if given is None:
        return None
    found = (given,) if isinstance(given, str) else tuple(given)
    for name in found:
        if name not in get_args(known):
            there = ", ".join(get_args(known))
            raise FilterError(f"unknown state {name!r}", hint=f"choose from {there}")
    return found
