"""Decides the outcome of a run whose handler did not simply return; without effects."""

from __future__ import annotations

from collections.abc import Callable

from rota.engine.attempts.attempt import PayloadRefused, Stop
from rota.engine.attempts.failure import describe
from rota.engine.executors.base import Lost, NotBegun, Raised
from rota.errors import AttemptTimeout, LeaseLost
from rota.model.outcome import (
    CUT_OFF,
    Outcome,
    Policy,
    Refused,
    cancelled_by,
    decide,
    lost_apart,
    not_begun,
)
from rota.model.run import Claim


def reach_verdict(
    found: Raised | Lost | NotBegun,
    claim: Claim,
    *,
    stop: Stop | None,
    timeout: float | None,
    policy: Callable[[], Policy],
    error_bytes: int,
) -> Outcome | None:
    """Return None if the run belongs to another worker, so that there is nothing to write. The
    reason for stopping an attempt takes precedence over how its handler reacted."""
    error = None if isinstance(found, NotBegun) else found.error
    if isinstance(error, LeaseLost) or (stop is not None and stop.kind == "lost"):
        return None
    used, allowed = claim.attempts_used, claim.max_attempts
    if stop is not None:
        if stop.kind == "cancel":
            return cancelled_by(stop.by, stop.reason)
        if stop.kind == "shutdown":
            return CUT_OFF
        trace = None if error is None else error.__traceback__
        late = AttemptTimeout(timeout or 0.0).with_traceback(trace)
        return decide(late, describe(late, error_bytes), policy(), used, allowed)
    if isinstance(found, NotBegun):
        return not_begun(found.reason)
    if isinstance(found.error, PayloadRefused):
        # The outcome depends on the other workers, which are stored in the database.
        refused = found.error
        failure = describe(refused.cause, error_bytes)
        return Refused(refused.intake, refused.signature, failure)
    failure = describe(found.error, error_bytes)
    if isinstance(found, Lost):
        return lost_apart(failure, used, allowed)
    return decide(found.error, failure, policy(), used, allowed)
