"""The outcome of an attempt, as data, before anything is written.

`decide` is the whole state machine of an attempt's end: pure, and tested as a table. It is not
called for a handler that returned; success needs no decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from rota.errors import AttemptTimeout, Cancel, Retry, Snooze


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed, in texts that fit into a row."""

    error_type: str
    error: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended; `result` and `details` are JSON."""

    state: Literal["succeeded", "failed", "cancelled"]
    attempt_state: Literal["succeeded", "failed", "cancelled", "timed_out", "lost"]
    end_reason: str | None = None
    message: str | None = None
    failure: Failure | None = None
    result: str | None = None
    details: str | None = None


@dataclass(frozen=True, slots=True)
class Requeue:
    """The run continues: after `delay` seconds, or, if it is None, at its old place in the
    queue."""

    attempt_state: Literal["failed", "snoozed", "cancelled", "timed_out", "lost"]
    delay: float | None
    is_spent: bool
    message: str | None = None
    failure: Failure | None = None
    details: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """This worker's code refuses the payload: the run goes back without using an attempt, for other
    workers. `intake` identifies the payloads that this code accepts, `signature` is the hash of its
    schema."""

    intake: int
    signature: int
    failure: Failure
    attempt_state: Literal["cancelled"] = "cancelled"
    message: str | None = None
    details: str | None = None


Outcome = Ended | Requeue | Refused


def in_ascii(outcome: Outcome) -> Outcome:
    """Return the outcome in ASCII, which a database of any encoding can store."""
    plain = replace(
        outcome,
        message=outcome.message and _escape(outcome.message),
        # A JSON text allows only some escapes.
        details=outcome.details and outcome.details.encode("ascii", "replace").decode(),
    )
    failure = outcome.failure
    if failure is None:
        return plain
    return replace(
        plain,
        failure=Failure(
            _escape(failure.error_type),
            _escape(failure.error),
            failure.traceback and _escape(failure.traceback),
        ),
    )


def _escape(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Policy:
    """The retry policy of a job."""

    delay_after: Callable[[int], float]
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    give_up_on: tuple[type[BaseException], ...] = ()

    def allows_retry(self, error: BaseException) -> bool:
        return isinstance(error, self.retry_on) and not isinstance(error, self.give_up_on)


def decide(
    error: BaseException, failure: Failure, policy: Policy, attempts_used: int, max_attempts: int
) -> Outcome:
    """Return the outcome for a run whose attempt raised `error`; `attempts_used` counts earlier
    ones."""
    match error:
        case Snooze():
            return Requeue("snoozed", error.delay, is_spent=False, message=str(error) or None)
        case Cancel():
            # The text of the failure, not of the error: it is known to fit into a row.
            words = f": {failure.error}" if error.reason else ""
            return Ended("cancelled", "cancelled", f"cancelled by its handler{words}")
        case AttemptTimeout():
            state: Literal["failed", "timed_out"] = "timed_out"
        case _:
            state = "failed"
    used = attempts_used + 1
    if used >= max_attempts:
        return Ended("failed", state, "attempts used up", failure=failure)
    if isinstance(error, Retry):
        delay = policy.delay_after(used) if error.delay is None else error.delay
        return Requeue(state, delay, is_spent=True, failure=failure)
    if not policy.allows_retry(error):
        return Ended("failed", state, f"gave up on {failure.error_type}", failure=failure)
    return Requeue(state, policy.delay_after(used), is_spent=True, failure=failure)


def cancelled_by(who: str, reason: str | None) -> Ended:
    """Return the end of a running attempt that was stopped on request."""
    return Ended(
        "cancelled", "cancelled", f"cancelled by {who}" + (f": {reason}" if reason else "")
    )


def not_begun(why: str) -> Requeue:
    """Return the run to its place: its handler was not called, for a reason outside the run."""
    return Requeue("cancelled", None, is_spent=False, message=why)


def lost_apart(failure: Failure, attempts_used: int, max_attempts: int) -> Outcome:
    """The isolated process of a suspect died: this counts as the run's own failure, and it stays a
    suspect."""
    if attempts_used + 1 >= max_attempts:
        return Ended("failed", "lost", "attempts used up", failure=failure)
    return Requeue("lost", 0, is_spent=True, failure=failure)


SUCCEEDED = Ended("succeeded", "succeeded")
EXPIRED = Ended("cancelled", "cancelled", "expired")
CUT_OFF = Requeue("cancelled", None, is_spent=False, message="interrupted by a shutdown")
