"""States of a claim loop that has no database."""

from __future__ import annotations

from rota.engine.claiming.calls import Calls
from rota.engine.claiming.state import CallState, ClaimState, next_action

# Slots are free, nothing is claimed, nothing has ended, and the last claim found nothing.
QUIET = ClaimState(
    is_claiming=True,
    is_sent=False,
    idle=10,
    free=10,
    ready=0,
    ahead=0,
    is_stalled=False,
    ends=0,
    is_writing_beside=False,
    is_writer_resting=True,
    size=100,
    may_have_more=False,
    is_fast=False,
    seconds_to_full_claim=None,
    is_search_due=False,
    poll_seconds=60.0,
    calls=CallState(seconds_to_poll=30.0),
)


def idle(calls: Calls) -> ClaimState:
    """The state of a worker that has nothing to do, as far as its calls go."""
    return QUIET._replace(calls=calls.state(), poll_seconds=calls.poll_seconds)


async def perform(calls: Calls) -> None:
    """What the loop does when it is not time for a claim: one action, if there is any."""
    state = idle(calls)
    not_due = state.calls._replace(is_called=False, seconds_to_poll=1.0)
    action = next_action(state._replace(calls=not_due))
    if action.name != "REST":
        await calls.perform(action)
