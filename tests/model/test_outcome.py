"""The state machine of an attempt's end, as a table."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pytest

from rota.errors import AttemptTimeout, Cancel, Retry, Snooze
from rota.model.outcome import (
    CUT_OFF,
    EXPIRED,
    Ended,
    Failure,
    Outcome,
    Policy,
    Requeue,
    cancelled_by,
    decide,
    lost_apart,
    not_begun,
)

FAILURE = Failure("Kind", "words", "trace")


def backoff(used: int) -> float:
    return used * 10.0


USUAL = Policy(backoff)
ONLY_KEYS = Policy(backoff, retry_on=(KeyError,))
NEVER_KEYS = Policy(backoff, give_up_on=(KeyError,))


Failed = Literal["failed", "timed_out"]


def again(state: Failed, delay: float | None) -> Requeue:
    return Requeue(state, delay, is_spent=True, failure=FAILURE)


def over(state: Failed, reason: str) -> Ended:
    return Ended("failed", state, reason, failure=FAILURE)


USED_UP = "attempts used up"
TABLE: list[tuple[BaseException, Policy, int, int, Outcome]] = [
    # what was raised, policy, used before, allowed, outcome
    (ValueError(), USUAL, 0, 3, again("failed", 10)),
    (ValueError(), USUAL, 1, 3, again("failed", 20)),
    (ValueError(), USUAL, 2, 3, over("failed", USED_UP)),
    (ValueError(), USUAL, 0, 1, over("failed", USED_UP)),
    (ValueError(), USUAL, 7, 3, over("failed", USED_UP)),
    (SystemExit(1), USUAL, 0, 3, again("failed", 10)),
    (KeyboardInterrupt(), USUAL, 0, 3, again("failed", 10)),
    (GeneratorExit(), USUAL, 0, 3, again("failed", 10)),
    (AttemptTimeout(5), USUAL, 0, 3, again("timed_out", 10)),
    (AttemptTimeout(5), USUAL, 2, 3, over("timed_out", USED_UP)),
    (AttemptTimeout(5), ONLY_KEYS, 0, 3, over("timed_out", "gave up on Kind")),
    (TimeoutError(), USUAL, 0, 3, again("failed", 10)),
    (Retry(), USUAL, 0, 3, again("failed", 10)),
    (Retry(4), USUAL, 0, 3, again("failed", 4)),
    (Retry(0), USUAL, 0, 3, again("failed", 0)),
    (Retry(timedelta(minutes=1)), USUAL, 0, 3, again("failed", 60)),
    (Retry(-5), USUAL, 0, 3, again("failed", 0)),
    (Retry(4), USUAL, 2, 3, over("failed", USED_UP)),
    (Retry(4), ONLY_KEYS, 0, 3, again("failed", 4)),
    (KeyError(), ONLY_KEYS, 0, 3, again("failed", 10)),
    (ValueError(), ONLY_KEYS, 0, 3, over("failed", "gave up on Kind")),
    (KeyError(), NEVER_KEYS, 0, 3, over("failed", "gave up on Kind")),
    (KeyError(), NEVER_KEYS, 2, 3, over("failed", USED_UP)),
    (Snooze(7), USUAL, 0, 3, Requeue("snoozed", 7, is_spent=False, message="snoozed for 7 s")),
    (Snooze(7), USUAL, 2, 3, Requeue("snoozed", 7, is_spent=False, message="snoozed for 7 s")),
    (Snooze(0), USUAL, 0, 1, Requeue("snoozed", 0, is_spent=False, message="snoozed for 0 s")),
    (
        Cancel("not needed"),
        USUAL,
        0,
        3,
        Ended("cancelled", "cancelled", "cancelled by its handler: words"),
    ),
    (Cancel(), USUAL, 0, 3, Ended("cancelled", "cancelled", "cancelled by its handler")),
]


@pytest.mark.parametrize(("error", "policy", "used", "allowed", "expected"), TABLE)
def test_decide(
    error: BaseException, policy: Policy, used: int, allowed: int, expected: Outcome
) -> None:
    assert decide(error, FAILURE, policy, used, allowed) == expected


def test_only_failures_are_spent() -> None:
    spent = {
        str(error) or type(error).__name__: outcome.is_spent
        for error, policy, used, allowed, _ in TABLE
        if isinstance(outcome := decide(error, FAILURE, policy, used, allowed), Requeue)
    }
    assert all(is_spent != name.startswith("snoozed") for name, is_spent in spent.items())


def test_ends_that_nobody_raised() -> None:
    assert cancelled_by("ann", "enough").end_reason == "cancelled by ann: enough"
    assert cancelled_by("ann", None).end_reason == "cancelled by ann"
    assert EXPIRED.end_reason == "expired"
    assert (CUT_OFF.delay, CUT_OFF.is_spent) == (None, False)


def test_a_suspect_that_took_its_own_process_with_it() -> None:
    assert lost_apart(FAILURE, 0, 3) == again("lost", 0)
    assert lost_apart(FAILURE, 2, 3) == over("lost", USED_UP)


def test_what_was_not_begun_costs_nothing() -> None:
    assert not_begun("no room") == Requeue("cancelled", None, is_spent=False, message="no room")
