"""What the claim loop does next, and for how long it rests."""

from __future__ import annotations

from typing import Any

import pytest

from rota.engine.claiming.state import (
    STALLED_SECONDS,
    Action,
    CallState,
    ClaimState,
    next_action,
    seconds_to_rest,
)
from tests.engine.claiming.states import QUIET

# Slots are free, it is time to poll, and nothing is known about what waits.
DUE: dict[str, Any] = {"calls": CallState()}
RAPID: dict[str, Any] = {"is_fast": True, "may_have_more": True, "free": 0, "idle": 0}
AHEAD: dict[str, Any] = {"ahead": 100, "free": 0, "idle": 0}
PAUSED: dict[str, Any] = {"is_claiming": False}
BESIDE: dict[str, Any] = {"is_writing_beside": True}
IDLE = CallState(seconds_to_poll=30.0, is_listening=True, announced="idle")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (DUE, Action.CLAIM),
        ({}, Action.REST),
        (DUE | {"free": 0}, Action.REST),
        (DUE | {"free": -3}, Action.REST),
        (DUE | PAUSED, Action.REST),
        # Reasons for a claim.
        ({"may_have_more": True}, Action.CLAIM),
        ({"seconds_to_full_claim": 0.0}, Action.CLAIM),
        ({"seconds_to_full_claim": 0.1}, Action.REST),
        ({"calls": CallState(is_called=True, seconds_to_poll=30.0)}, Action.CLAIM),
        # Ends do not keep it from free slots: they go with the claim.
        (DUE | {"ends": 500}, Action.CLAIM),
        # Short runs follow one another: a batch ahead, though no slot is free.
        (RAPID, Action.CLAIM_AHEAD),
        (RAPID | {"ready": 83}, Action.CLAIM_AHEAD),
        (RAPID | {"ready": 84}, Action.REST),
        (RAPID | BESIDE | {"ends": 100, "is_writer_resting": False}, Action.CLAIM_AHEAD),
        (RAPID | BESIDE | {"ends": 101, "is_writer_resting": False}, Action.REST),
        (RAPID | {"ends": 101}, Action.WRITE_ENDS),
        (RAPID | {"may_have_more": False}, Action.REST),
        (RAPID | PAUSED, Action.REST),
        # What is ahead starts, whether or not there is more.
        (AHEAD, Action.START_AHEAD),
        (AHEAD | DUE, Action.START_AHEAD),
        (AHEAD | {"ready": 83}, Action.START_AHEAD),
        (AHEAD | {"ready": 84}, Action.REST),
        (AHEAD | {"ends": 101}, Action.WRITE_ENDS),
        (AHEAD | PAUSED, Action.HAND_BACK),
    ],
)
def test_what_is_claimed_next(changes: dict[str, Any], expected: Action) -> None:
    assert next_action(QUIET._replace(**changes)) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ends": 1}, Action.WRITE_ENDS),
        (PAUSED | {"ends": 1}, Action.WRITE_ENDS),
        # The second connection writes them, unless it does so already.
        (BESIDE | {"ends": 1}, Action.WAKE_END_WRITER),
        (BESIDE | {"ends": 1, "is_writer_resting": False}, Action.REST),
        (BESIDE | DUE | {"ends": 1}, Action.WAKE_END_WRITER),
        (BESIDE | DUE | {"ends": 1, "is_writer_resting": False}, Action.CLAIM),
        (BESIDE, Action.REST),
        # What has not started goes back.
        (PAUSED | {"ready": 1}, Action.HAND_BACK),
        ({"ready": 1}, Action.REST),
        ({"ready": 1, "is_stalled": True}, Action.HAND_BACK_STALLED),
        (PAUSED | {"ready": 1, "is_stalled": True}, Action.HAND_BACK),
        # A claim that was sent is received before anything else.
        (PAUSED | {"is_sent": True, "ready": 1, "ends": 1}, Action.RECEIVE),
        # A worker that serves all queues searches while nothing else is to be done.
        ({"is_search_due": True}, Action.FIND_QUEUES),
        ({"is_search_due": True, "ends": 1}, Action.WRITE_ENDS),
        (DUE | {"is_search_due": True}, Action.CLAIM),
        (PAUSED | {"is_search_due": True}, Action.REST),
    ],
)
def test_ends_and_what_has_not_started(changes: dict[str, Any], expected: Action) -> None:
    assert next_action(QUIET._replace(**changes)) is expected


@pytest.mark.parametrize(
    ("calls", "changes", "expected"),
    [
        ({"announced": "none"}, {}, Action.ANNOUNCE_IDLE),
        ({"announced": "polling"}, {}, Action.ANNOUNCE_IDLE),
        ({"announced": "idle"}, {}, Action.REST),
        ({"is_busy": True}, {}, Action.ANNOUNCE_POLLING),
        ({"is_busy": True, "announced": "polling"}, {}, Action.REST),
        # Whoever cannot be called, or does not claim, must not be called.
        ({"is_listening": False}, {}, Action.WITHDRAW),
        ({"is_listening": False, "announced": "none"}, {}, Action.REST),
        ({}, PAUSED, Action.WITHDRAW),
        ({"announced": "none"}, PAUSED, Action.REST),
        ({"announced": "none"}, PAUSED | {"idle": 0}, Action.REST),
        ({}, PAUSED | {"idle": 0}, Action.WITHDRAW),
        # Without an idle slot nothing is announced, and nothing withdrawn.
        ({"announced": "none"}, {"idle": 0, "free": 0}, Action.REST),
        ({"is_listening": False}, {"idle": 0, "free": 0}, Action.REST),
        # While another transaction holds the worker's row.
        ({"announced": "none", "is_row_held": True}, {}, Action.REST),
        ({"is_row_held": True}, PAUSED, Action.REST),
        # After the announcement, once a claim.
        ({"is_settling": True, "may_check_older": True}, {}, Action.CHECK_OLDER),
        ({"is_settling": True}, {}, Action.REST),
        ({"may_check_late": True}, {}, Action.CHECK_LATE),
        ({"may_check_late": True, "announced": "none"}, {}, Action.ANNOUNCE_IDLE),
        # Other workers hear of it before the next claim.
        ({"has_to_pass_on": True, "is_called": True}, {}, Action.PASS_ON),
        ({"has_to_pass_on": True}, PAUSED, Action.PASS_ON),
        ({"has_to_pass_on": True, "has_to_pass_over": True}, {}, Action.PASS_OVER),
        # A moment after a full claim it is seen whether that was too much.
        ({"seconds_to_load_check": 0.0, "is_called": True}, {}, Action.CHECK_LOAD),
        ({"seconds_to_load_check": 0.001}, {}, Action.REST),
        # Claims and ends come first.
        ({"announced": "none"}, {"ends": 1}, Action.WRITE_ENDS),
        ({"announced": "none", "is_called": True}, {}, Action.CLAIM),
    ],
)
def test_what_other_workers_are_told(
    calls: dict[str, Any], changes: dict[str, Any], expected: Action
) -> None:
    state = QUIET._replace(calls=IDLE._replace(**calls), **changes)
    assert next_action(state) is expected


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 30.0),
        ({"may_have_more": True, "free": 0}, 60.0),
        ({"calls": IDLE._replace(is_called=True), "free": 0}, 60.0),
        ({"seconds_to_full_claim": 0.2}, 0.2),
        ({"seconds_to_full_claim": 0.2, "free": 0}, 60.0),
        ({"ready": 1}, STALLED_SECONDS),
        ({"calls": IDLE._replace(seconds_to_load_check=0.005)}, 0.005),
        # Whoever cannot claim does not poll, however long the next poll has been due.
        (DUE | PAUSED, 60.0),
        (DUE | {"free": 0}, 60.0),
        # Nor while the ends of a whole batch wait behind a write, though slots are free.
        (RAPID | BESIDE | {"free": 5, "ends": 101, "seconds_to_full_claim": 0.0}, 60.0),
    ],
)
def test_how_long_it_rests(changes: dict[str, Any], seconds: float) -> None:
    assert seconds_to_rest(QUIET._replace(**changes)) == seconds


@pytest.mark.parametrize(
    ("calls", "changes", "expected"),
    [
        ({}, {}, True),
        ({}, {"free": 0}, False),
        ({}, PAUSED, False),
        ({"announced": "none"}, {}, False),
        ({"is_settling": True}, {}, False),
        ({"is_busy": True}, {}, False),
    ],
)
def test_a_claim_is_prepared_where_a_call_comes_next(
    calls: dict[str, Any], changes: dict[str, Any], expected: bool
) -> None:
    state = QUIET._replace(calls=IDLE._replace(**calls), **changes)
    assert state.may_prepare is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, False), ({"may_have_more": True}, True), ({"free": 0}, True), ({"free": -1}, True)],
)
def test_a_worker_is_full(changes: dict[str, Any], expected: bool) -> None:
    assert QUIET._replace(**changes).is_full is expected


def test_a_state_is_frozen() -> None:
    with pytest.raises(AttributeError):
        QUIET.free = 1  # type: ignore[misc]
    assert isinstance(QUIET, ClaimState)
