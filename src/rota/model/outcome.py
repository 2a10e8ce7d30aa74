"""What an attempt decided, as data, before anything is written.

`decide` is the whole state machine of an attempt's end: pure, and tested as a table. A body
that returned never comes here; success needs no decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from rota.errors import AttemptTimeout, Cancel, Retry, Snooze


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed, in words that fit into a row."""

    error_type: str
    error: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over; `result` and `details` are JSON."""

    state: Literal["succeeded", "failed", "cancelled"]
    attempt_state: Literal["succeeded", "failed", "cancelled", "timed_out", "lost"]
    end_reason: str | None = None
    message: str | None = None
    failure: Failure | None = None
    result: str | None = None
    details: str | None = None


@dataclass(frozen=True, slots=True)
class Requeue:
    """The run goes on: after `delay` seconds, or, where it is None, from its old place."""

    attempt_state: Literal["failed", "snoozed", "cancelled", "timed_out", "lost"]
    delay: float | None
    is_spent: bool
    message: str | None = None
    failure: Failure | None = None
    details: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """This worker's code does not take the payload: the run goes back unspent, to others. `intake`
    is which payloads this code takes, `signature` the hash of its schema."""

    intake: int
    signature: int
    failure: Failure
    attempt_state: Literal["cancelled"] = "cancelled"
    message: str | None = None
    details: str | None = None


Outcome = Ended | Requeue | Refused


def in_ascii(outcome: Outcome) -> Outcome:
    """The same in words that a database of any encoding can hold."""
    plain = replace(
        outcome,
        message=outcome.message and _escape(outcome.message),
        # A JSON text knows only some escapes.
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
    """What a job says about failures."""

    delay_after: Callable[[int], float]
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    give_up_on: tuple[type[BaseException], ...] = ()

    def allows_retry(self, error: BaseException) -> bool:
        return isinstance(error, self.retry_on) and not isinstance(error, self.give_up_on)


def decide(
    error: BaseException, failure: Failure, policy: Policy, attempts_used: int, max_attempts: int
) -> Outcome:
    """What becomes of a run whose attempt raised `error`; `attempts_used` counts earlier ones."""
    match error:
        case Snooze():
            return Requeue("snoozed", error.delay, is_spent=False, message=str(error) or None)
        case Cancel():
            # The failure's words and not the error's: they are known to fit into a row.
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
    """A running attempt stopped because somebody asked for it."""
    return Ended(
        "cancelled", "cancelled", f"cancelled by {who}" + (f": {reason}" if reason else "")
    )


def not_begun(why: str) -> Requeue:
    """Back to its place: the body was not called, for a reason that is not the run's."""
    return Requeue("cancelled", None, is_spent=False, message=why)


def lost_apart(failure: Failure, attempts_used: int, max_attempts: int) -> Outcome:
    """A suspect took its own process with it: the loss is its own, and it stays a suspect."""
    if attempts_used + 1 >= max_attempts:
        return Ended("failed", "lost", "attempts used up", failure=failure)
    return Requeue("lost", 0, is_spent=True, failure=failure)


SUCCEEDED = Ended("succeeded", "succeeded")
EXPIRED = Ended("cancelled", "cancelled", "expired")
CUT_OFF = Requeue("cancelled", None, is_spent=False, message="interrupted by a shutdown")
