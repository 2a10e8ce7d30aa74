"""What becomes of a run whose body did not simply return, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from rota.engine.attempts.attempt import PayloadRefused, Stop
from rota.engine.attempts.verdict import reach_verdict
from rota.engine.executors.base import Lost, NotBegun, Raised
from rota.errors import LeaseLost, PayloadError, Snooze
from rota.model.outcome import CUT_OFF, Ended, Policy, Refused, Requeue
from tests.engine.claiming.claims import make_claim

Found = Raised | Lost | NotBegun

BOOM = Raised(ValueError("boom"))
GONE = Lost(RuntimeError("killed"))
NOT_BEGUN = NotBegun("no room")
REFUSED = Raised(PayloadRefused(PayloadError("no n"), 7, 8))


def shown(found: Found, stop: Stop | None = None, used: int = 0) -> tuple[Any, ...] | None:
    outcome = reach_verdict(
        found,
        make_claim(attempts_used=used),
        stop=stop,
        timeout=3.0,
        policy=lambda: Policy(lambda attempt: attempt * 10.0),
        error_bytes=1000,
    )
    match outcome:
        case Ended():
            return outcome.state, outcome.attempt_state, outcome.end_reason
        case Requeue():
            return "again", outcome.attempt_state, outcome.delay, outcome.is_spent
        case Refused():
            return "refused", outcome.attempt_state, outcome.intake, outcome.signature
    return None


@pytest.mark.parametrize(
    ("found", "used", "expected"),
    [
        (BOOM, 0, ("again", "failed", 10.0, True)),
        (BOOM, 2, ("failed", "failed", "attempts used up")),
        (Raised(Snooze(7)), 2, ("again", "snoozed", 7, False)),
        (GONE, 0, ("again", "lost", 0, True)),
        (GONE, 2, ("failed", "lost", "attempts used up")),
        (NOT_BEGUN, 2, ("again", "cancelled", None, False)),
        (REFUSED, 2, ("refused", "cancelled", 7, 8)),
        (Raised(LeaseLost("by now")), 0, None),
        # A handler that raises it itself is retried: only what Rota refused is the payload's fault.
        (Raised(PayloadError("no n")), 0, ("again", "failed", 10.0, True)),
    ],
)
def test_what_came_out_decides(found: Found, used: int, expected: tuple[Any, ...] | None) -> None:
    assert shown(found, used=used) == expected


@pytest.mark.parametrize("found", [BOOM, GONE, NOT_BEGUN, REFUSED])
@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (Stop("lost"), None),
        (Stop("cancel", "ann"), ("cancelled", "cancelled", "cancelled by ann")),
        (Stop("shutdown"), ("again", "cancelled", None, False)),
        (Stop("timeout"), ("again", "timed_out", 10.0, True)),
    ],
    ids=["lost", "cancel", "shutdown", "timeout"],
)
def test_why_it_was_stopped_says_more(
    found: Found, stop: Stop, expected: tuple[Any, ...] | None
) -> None:
    assert shown(found, stop) == expected


def test_a_cut_off_names_the_shutdown() -> None:
    assert CUT_OFF.message == "interrupted by a shutdown"
