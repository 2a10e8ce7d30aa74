"""The decisions of the claim loop: a frozen state, and the next action that follows from it. Pure.

`loop.py` gathers the state, asks `next_action`, performs the action, and starts over.
"""

from __future__ import annotations

from enum import Enum, auto
from math import inf
from typing import Literal, NamedTuple

# How long claimed runs may wait for a slot while no run starts, before they are handed back.
STALLED_SECONDS = 1.0

# What the worker's row says: it does not want to be called, it is idle and wants to be called, or
# it is called so often that it polls instead.
Announced = Literal["none", "idle", "polling"]


class Action(Enum):
    # Read the response to a prepared claim, which was sent when a call arrived.
    RECEIVE = auto()
    # Return runs that have not started: claiming has stopped.
    HAND_BACK = auto()
    # The same because the running attempts are slower than expected; claim less from now on.
    HAND_BACK_STALLED = auto()
    # A moment after a full claim: see whether the worker still has more than it can do.
    CHECK_LOAD = auto()
    # Stop announcing workers as idle that were called and took nothing.
    PASS_OVER = auto()
    # Call other workers: this one has more than it can do.
    PASS_ON = auto()
    # Let the second connection write the ends.
    WAKE_END_WRITER = auto()
    # Claim for the slots that are free, and write the ends.
    CLAIM = auto()
    # Claim a batch ahead of the slots.
    CLAIM_AHEAD = auto()
    # Start the batch that was claimed ahead, and claim the next one.
    START_AHEAD = auto()
    # Write the ends without a claim.
    WRITE_ENDS = auto()
    # Ask the database which queues have runs.
    FIND_QUEUES = auto()
    # Change what the worker's row says: see `Announced`.
    WITHDRAW = auto()
    ANNOUNCE_IDLE = auto()
    ANNOUNCE_POLLING = auto()
    # Ask whether all transactions have ended that could not see the announcement.
    CHECK_OLDER = auto()
    # Ask whether such a transaction, open for a long time, has changed runs.
    CHECK_LATE = auto()
    # Wait for an event, or until the next poll.
    REST = auto()


class CallState(NamedTuple):
    """The state of calls, and what this worker has announced to others."""

    # A call has arrived since the last claim was sent, or something else asks for a poll.
    is_called: bool = False
    seconds_to_poll: float = 0.0
    # Calls can be received.
    is_listening: bool = False
    # Called so often that polling is cheaper.
    is_busy: bool = False
    announced: Announced = "none"
    # Another transaction holds the worker's row, so that nothing can be announced.
    is_row_held: bool = False
    # Transactions may be open that could not see the announcement.
    is_settling: bool = False
    may_check_older: bool = False
    may_check_late: bool = False
    # When to check whether the worker still has more than it can do; None: it had room lately.
    seconds_to_load_check: float | None = None
    # There are queues whose called workers took nothing, and queues that need another worker.
    has_to_pass_over: bool = False
    has_to_pass_on: bool = False

    @property
    def is_quiet(self) -> bool:
        """Return whether the next reason to claim will be a call."""
        return self.announced == "idle" and not self.is_settling and not self.is_busy


class ClaimState(NamedTuple):
    """All that the next action depends on."""

    # False while claiming is paused: the worker drains, stops, or may lose its lease.
    is_claiming: bool
    # A prepared claim is on its way.
    is_sent: bool
    # Slots that execute nothing, and how many of them no claimed run waits for.
    idle: int
    free: int
    # Claimed runs that wait for a slot, and those of the batch that was claimed ahead.
    ready: int
    ahead: int
    # The last rest ended with runs that wait although nothing has started for a while.
    is_stalled: bool
    # Ends that wait to be written, and whether the second connection is to write them.
    ends: int
    is_writing_beside: bool
    is_writer_resting: bool
    # The largest number of runs that one claim takes for now.
    size: int
    # The last claim came back full, or left queues unvisited.
    may_have_more: bool
    # Runs are short, so that a claim takes more than the free slots.
    is_fast: bool
    # When a claim without hints is due; None if the last one had none.
    seconds_to_full_claim: float | None
    is_search_due: bool
    poll_seconds: float
    calls: CallState

    @property
    def is_due(self) -> bool:
        """Return whether there may be something to claim."""
        return (
            self.may_have_more
            or self.calls.is_called
            or self.calls.seconds_to_poll <= 0
            or self.seconds_to_full_claim == 0
        )

    @property
    def is_full(self) -> bool:
        """Return whether the worker may have more than it can do."""
        return self.may_have_more or self.free <= 0

    @property
    def may_prepare(self) -> bool:
        """Return whether to prepare a claim during the rest, to be sent when a call arrives."""
        return self.is_claiming and self.free > 0 and self.calls.is_quiet


def next_action(state: ClaimState) -> Action:
    if state.is_sent:
        return Action.RECEIVE
    if not state.is_claiming and (state.ready or state.ahead):
        return Action.HAND_BACK
    if state.is_stalled:
        return Action.HAND_BACK_STALLED
    return _next_about_load(state.calls) or _next_exchange(state) or _next_when_quiet(state)


def _next_about_load(calls: CallState) -> Action | None:
    if calls.seconds_to_load_check is not None and calls.seconds_to_load_check <= 0:
        return Action.CHECK_LOAD
    if calls.has_to_pass_over:
        return Action.PASS_OVER
    return Action.PASS_ON if calls.has_to_pass_on else None


def _next_exchange(state: ClaimState) -> Action | None:
    """The next round trip of claims and ends."""
    if state.ends and state.is_writing_beside and state.is_writer_resting:
        return Action.WAKE_END_WRITER
    if state.is_claiming and (claim := _next_claim(state)) is not None:
        return claim
    if state.ends and not state.is_writing_beside:
        return Action.WRITE_ENDS
    return None


def _next_claim(state: ClaimState) -> Action | None:
    # As soon as the slots have begun, so that the server has work while they have theirs; not
    # before: two whole batches would be what a crash makes suspect. And not while the ends of
    # a whole batch wait behind a write: a crash repeats what is not written.
    wants_batch = state.ready <= state.size * 5 // 6 and state.ends <= state.size
    if state.ahead:
        return Action.START_AHEAD if wants_batch else None
    if not state.is_due:
        return None
    if state.is_fast and state.may_have_more:
        # More than the free slots would start within a round trip: claimed ahead, so that
        # only what really starts counts as started.
        return Action.CLAIM_AHEAD if wants_batch else None
    return Action.CLAIM if state.free > 0 else None


def _next_when_quiet(state: ClaimState) -> Action:
    if state.is_claiming and state.is_search_due:
        return Action.FIND_QUEUES
    if not state.is_claiming:
        # A worker that does not claim must not be called.
        return _announce("none", state.calls) or Action.REST
    if state.idle > 0:
        return _announce(_wanted(state.calls), state.calls) or _follow_up(state.calls)
    return Action.REST


def _wanted(calls: CallState) -> Announced:
    if not calls.is_listening:
        return "none"
    return "polling" if calls.is_busy else "idle"


def _announce(wanted: Announced, calls: CallState) -> Action | None:
    if wanted == calls.announced:
        return None
    if calls.is_row_held:
        return Action.REST
    return _ANNOUNCING[wanted]


_ANNOUNCING: dict[Announced, Action] = {
    "none": Action.WITHDRAW,
    "idle": Action.ANNOUNCE_IDLE,
    "polling": Action.ANNOUNCE_POLLING,
}


def _follow_up(calls: CallState) -> Action:
    """Decide which enqueues could not see that the worker has announced that it is idle."""
    if calls.may_check_older:
        return Action.CHECK_OLDER
    if calls.may_check_late:
        return Action.CHECK_LATE
    return Action.REST


def seconds_to_rest(state: ClaimState) -> float:
    """Return how long the loop rests if no event wakes it. A claim that is due and not sent waits
    for such an event: a slot becomes free, ends are written, claiming is resumed."""
    calls = state.calls
    if state.is_due or not state.is_claiming or state.free <= 0:
        seconds = state.poll_seconds
    else:
        seconds = min(calls.seconds_to_poll, state.seconds_to_full_claim or inf)
    if state.ready:
        seconds = min(seconds, STALLED_SECONDS)
    if calls.seconds_to_load_check is not None:
        seconds = min(seconds, calls.seconds_to_load_check)
    return seconds
