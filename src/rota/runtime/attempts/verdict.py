"""What becomes of a run whose body did not simply return: a decision without effects."""

from __future__ import annotations

from collections.abc import Callable

from rota.errors import AttemptTimeout, LeaseLost
from rota.executors.base import Lost, NotBegun, Raised
from rota.model.outcome import (
    CUT_OFF,
    Ended,
    Outcome,
    Policy,
    cancelled_by,
    decide,
    lost_apart,
    not_begun,
)
from rota.model.run import Claim
from rota.runtime.attempts.attempt import PayloadRefused, Stop
from rota.runtime.attempts.failure import describe


def reach_verdict(
    found: Raised | Lost | NotBegun,
    claim: Claim,
    *,
    stop: Stop | None,
    timeout: float | None,
    policy: Callable[[], Policy],
    error_bytes: int,
) -> Outcome | None:
    """None: the run is somebody else's, there is nothing to write. Why an attempt was stopped says
    more than how its body took that."""
    error = found.error
    if isinstance(error, LeaseLost) or (stop is not None and stop.kind == "lost"):
        return None
    if stop is not None and stop.kind == "cancel":
        return cancelled_by(stop.by, stop.reason)
    if stop is not None and stop.kind == "shutdown":
        return CUT_OFF
    if stop is not None and stop.kind == "timeout":
        error = AttemptTimeout(timeout or 0.0).with_traceback(error.__traceback__)
    elif isinstance(found, NotBegun):
        return not_begun(f"no process of its own could be started: {error}")
    if isinstance(error, PayloadRefused):
        # No later attempt would find another payload.
        failure = describe(error.cause, error_bytes)
        return Ended("failed", "failed", "payload refused", failure=failure)
    failure = describe(error, error_bytes)
    if isinstance(found, Lost) and error is found.error:
        return lost_apart(failure, claim.attempts_used, claim.max_attempts)
    return decide(error, failure, policy(), claim.attempts_used, claim.max_attempts)
