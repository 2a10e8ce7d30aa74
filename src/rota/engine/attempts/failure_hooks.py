"""Calls `on_failure` of a job and of its application when an attempt has failed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence

from rota.engine.attempts.attempt import PayloadRefused, RunningAttempt
from rota.engine.executors.base import CallOutcome, Lost, Raised
from rota.engine.executors.threads import ThreadPool
from rota.errors import AttemptTimeout, RotaError
from rota.jobs.context import Context
from rota.jobs.definition import JobDefinition
from rota.jobs.hooks import FailureFunction, Hooks
from rota.model.hook import AttemptFailure
from rota.model.outcome import Ended, Outcome, Requeue
from rota.model.states import FAILED_ATTEMPT_STATES
from rota.telemetry.logger import get_logger

# A hook that takes longer is interrupted, because it occupies the slot of its attempt.
_HOOK_SECONDS = 30.0


class FailureHooks:
    """Hooks are called one after another in the slot of the attempt, after its end was handed on to
    be written: so many failures do not cause many concurrent calls. For SQL jobs the hooks of the
    application are called."""

    def __init__(self, hooks: Hooks, threads: ThreadPool) -> None:
        self._hooks = hooks
        self._threads = threads
        self._log = get_logger("worker")

    async def call(self, attempt: RunningAttempt, found: CallOutcome, outcome: Outcome) -> None:
        if outcome.attempt_state not in FAILED_ATTEMPT_STATES:
            return
        for function in self._of(attempt):
            try:
                failure = describe_failure(attempt, found, outcome)
                async with asyncio.timeout(_HOOK_SECONDS):
                    await self._call(function, Context(attempt), failure)
            except BaseException as error:
                if _is_stopping(error):
                    raise
                self._log.exception(
                    "an on_failure hook failed",
                    hook=_name(function),
                    job=attempt.claim.job,
                    run=attempt.claim.id,
                    error=error,
                )

    def _of(self, attempt: RunningAttempt) -> Sequence[FailureFunction]:
        definition = attempt.definition
        if not isinstance(definition, JobDefinition):
            return self._hooks.on_failure
        own = definition.on_failure
        return (*(() if own is None else (own,)), *definition.hooks.on_failure)

    async def _call(
        self, function: FailureFunction, context: Context, failure: AttemptFailure
    ) -> None:
        if inspect.iscoroutinefunction(function):
            await function(context, failure)
        else:
            await self._threads.call(lambda: function(context, failure))


def describe_failure(
    attempt: RunningAttempt, found: CallOutcome, outcome: Outcome
) -> AttemptFailure:
    words = outcome.failure
    assert words is not None
    return AttemptFailure(
        error=_error(attempt, found, words.error),
        error_type=words.error_type,
        message=words.error,
        traceback=words.traceback,
        is_final=isinstance(outcome, Ended),
        retry_in=outcome.delay if isinstance(outcome, Requeue) else None,
    )


def _error(attempt: RunningAttempt, found: CallOutcome, words: str) -> BaseException:
    if attempt.stop is not None and attempt.stop.kind == "timeout":
        late = AttemptTimeout(attempt.timeout or 0.0)
        return late.with_traceback(found.error.__traceback__ if isinstance(found, Raised) else None)
    if not isinstance(found, Raised | Lost):
        return RotaError(words)
    return found.error.cause if isinstance(found.error, PayloadRefused) else found.error


def _is_stopping(error: BaseException) -> bool:
    """Return whether the slot itself is cancelled. Any other exception of a hook is caught."""
    task = asyncio.current_task()
    return (
        isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())
    )


def _name(function: FailureFunction) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
