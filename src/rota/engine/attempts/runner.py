"""Executes one attempt in its slot: pick the executor, call the handler, decide, report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from rota.engine.attempts.attempt import RunningAttempt, Services, Stop
from rota.engine.attempts.failure_hooks import FailureHooks
from rota.engine.attempts.observer import AttemptObserver
from rota.engine.attempts.verdict import reach_verdict
from rota.engine.executors.base import (
    CallOutcome,
    CommittedItself,
    Decided,
    Executor,
    ExecutorContext,
    Lost,
    NotBegun,
    Raised,
    Returned,
)
from rota.engine.executors.isolated import IsolatedExecutor
from rota.engine.executors.kinds import KINDS
from rota.engine.loops.sql_jobs import SqlJobs
from rota.jobs.definition import JobDefinition
from rota.jobs.registry import Registry
from rota.model.outcome import EXPIRED, SUCCEEDED, Failure, Outcome, Refused
from rota.model.run import Claim
from rota.postgres.definitions import is_newer
from rota.telemetry.logger import get_logger

_ISOLATED = "isolated"


class EndSink(Protocol):
    """Where ends of attempts go: the claim loop of the worker."""

    def succeeded(self, claim: Claim, duration_ms: float, result: str | None) -> None: ...

    def ended(self, claim: Claim, duration_ms: float, outcome: Outcome) -> None: ...

    def already_ended(self, claim: Claim, duration_ms: float, state: str) -> None:
        """The attempt's own transaction has written its end."""

    def wake(self) -> None:
        """A slot is free, and there is nothing to write."""


class Runner:
    """Executes the jobs of a registry, and the SQL jobs of the database; one per worker
    identity."""

    def __init__(
        self,
        *,
        registry: Registry,
        services: Services,
        means: ExecutorContext,
        worker: int,
        sql_jobs: SqlJobs,
        observers: Sequence[AttemptObserver] = (),
    ) -> None:
        self._config = means.config
        self._services = services
        self._worker = worker
        self._definitions: Mapping[str, JobDefinition] = {
            name: registry.get(name) for name in registry.all_names()
        }
        self._sql_jobs = sql_jobs
        self._executors: dict[str, Executor] = {kind: make(means) for kind, make in KINDS.items()}
        self._observers = tuple(observers)
        self._default_timeout = self._config.runs.timeout_seconds
        self._failure_hooks = FailureHooks(registry.hooks, means.threads)
        self._log = get_logger("worker")
        self._sink: EndSink
        self.running: dict[int, RunningAttempt] = {}
        # Runs whose handler is called in a separate process, whatever their job says.
        self.apart: set[int] = set()

    def serve(self, sink: EndSink) -> None:
        """Send ends to `sink`."""
        self._sink = sink

    def use(self, definitions: Mapping[str, JobDefinition]) -> None:
        """Use definitions whose entries are replaced when an operator changes them."""
        self._definitions = definitions

    @property
    def definitions(self) -> Mapping[str, JobDefinition]:
        return self._definitions

    @property
    def may_isolate(self) -> bool:
        """Return whether separate processes could be started for runs so far."""
        executor = self._executors[_ISOLATED]
        return isinstance(executor, IsolatedExecutor) and executor.may_start

    async def run(
        self, claim: Claim, task: asyncio.Task[None], may_start: Awaitable[None] | None = None
    ) -> None:
        """The body of a slot. No exception of a handler leaves this function. The run is prepared
        at once and starts after `may_start`. The call is inlined here, because a separate coroutine
        would cost every run one more."""
        attempt = self._begin(claim, task)
        outcome: Outcome | None = None
        found: CallOutcome
        try:
            try:
                if claim.is_expired:
                    found = Decided(EXPIRED, 0.0)
                else:
                    executor = self._executors[attempt.definition.executor]
                    if self.apart:
                        executor = self._pick_apart(attempt, executor)
                    if executor.is_bound:
                        if attempt.definition.upgrade is None:
                            attempt.bind()
                        else:
                            attempt.bind(await self._is_newer(attempt))
                    elif isinstance(attempt.definition, JobDefinition):
                        attempt.check_payload(await self._is_newer(attempt))
                    if may_start is not None:
                        await may_start
                        attempt.started = time.monotonic()
                    found = await executor.call(attempt)
            except BaseException as error:
                found = Raised(error)
            if type(found) is Returned and attempt.stop is None:
                outcome = SUCCEEDED
                duration_ms = (time.monotonic() - attempt.started) * 1000
                self._sink.succeeded(claim, duration_ms, found.result)
            else:
                outcome = await self._settle(attempt, found, task)
        finally:
            self._end(attempt, outcome)
        if outcome is not None and outcome.failure is not None:
            await self._failure_hooks.call(attempt, found, outcome)

    def _end(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        del self.running[attempt.claim.id]
        if attempt.has_lines:
            attempt.log_is_over()
        if self._observers:
            self._tell_ended(attempt, outcome)

    def _begin(self, claim: Claim, task: asyncio.Task[None]) -> RunningAttempt:
        definition = self._definitions.get(claim.job) or self._sql_jobs.get(claim.job)
        timeout = claim.timeout_seconds or definition.timeout or self._default_timeout
        attempt = RunningAttempt(claim, definition, self._worker, timeout, self._services, task)
        self.running[claim.id] = attempt
        if self._observers:
            self._tell_began(attempt)
        return attempt

    async def _is_newer(self, attempt: RunningAttempt) -> bool:
        """Return whether the payload was accepted under a newer signature than this code's: such a
        payload is not upgraded. Queried only if the job has an upgrade."""
        own, claim = attempt.handler, attempt.claim
        if own.upgrade is None or claim.validated_by in (None, own.schema.hash):
            return False
        assert claim.validated_by is not None
        query = is_newer(claim.job, claim.validated_by, own.schema.hash)
        return await self._services.database.fetch(query)

    def _pick_apart(self, attempt: RunningAttempt, usual: Executor) -> Executor:
        is_apart = attempt.claim.id in self.apart and usual.is_dangerous
        return self._executors[_ISOLATED] if is_apart else usual

    def _tell_began(self, attempt: RunningAttempt) -> None:
        for observer in self._observers:
            observer.began(attempt)

    def _tell_ended(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        for observer in self._observers:
            observer.ended(attempt, outcome)

    async def _settle(
        self, attempt: RunningAttempt, found: CallOutcome, task: asyncio.Task[None]
    ) -> Outcome | None:
        """Handle any result except a plain success. Return None if the run belongs to another
        worker."""
        if isinstance(found, CommittedItself | Decided):
            outcome, duration_ms = found.outcome, found.duration_ms
            is_written = isinstance(found, CommittedItself)
            self._report(attempt, outcome, duration_ms, is_written=is_written)
            return outcome
        if isinstance(found, Returned):
            # The attempt was stopped before: its result comes too late.
            found = Raised(asyncio.CancelledError())
        decided = await self._decide(attempt, found, task)
        if decided is None:
            self._sink.wake()
        else:
            self._report(attempt, decided)
        return decided

    async def _decide(
        self,
        attempt: RunningAttempt,
        found: Raised | Lost | NotBegun,
        task: asyncio.Task[None],
    ) -> Outcome | None:
        if attempt.stop is not None:
            while task.uncancel():
                pass
        if attempt.transaction is not None:
            await attempt.transaction.close()
        if isinstance(found, NotBegun):
            self._log.error("a run could not be started", run=attempt.claim.id, reason=found.reason)
        return reach_verdict(
            found,
            attempt.claim,
            stop=attempt.stop,
            timeout=attempt.timeout,
            policy=attempt.policy,
            error_bytes=self._config.runs.error_bytes,
        )

    def _report(
        self,
        attempt: RunningAttempt,
        outcome: Outcome,
        duration_ms: float | None = None,
        *,
        is_written: bool = False,
    ) -> None:
        claim = attempt.claim
        if isinstance(outcome, Refused):
            self._log.warning(
                "the payload does not fit this worker's code",
                job=claim.job,
                run=claim.id,
                error=outcome.failure.error[:200],
            )
            attempt.log_failure(outcome.failure, self._config.logs.line_bytes // 2)
        elif outcome.failure is not None:
            self._log_failure(attempt, outcome.failure)
        took = attempt.duration_ms if duration_ms is None else duration_ms
        if is_written:
            self._sink.already_ended(claim, took, outcome.attempt_state)
        else:
            self._sink.ended(claim, took, outcome)

    def _log_failure(self, attempt: RunningAttempt, failure: Failure) -> None:
        self._log.warning(
            "attempt failed",
            job=attempt.claim.job,
            run=attempt.claim.id,
            attempt=attempt.claim.attempt,
            error=f"{failure.error_type}: {failure.error[:200]}",
        )
        attempt.log_failure(failure, self._config.logs.line_bytes // 2)

    # Stopping attempts.

    def stop_overdue(self) -> None:
        """Called a few times a second: one check of all running attempts and idle sessions, instead
        of a timer for each."""
        for attempt in list(self.running.values()):
            if attempt.stop is not None:
                attempt.nudge()
            elif attempt.is_overdue:
                attempt.stop_now(Stop("timeout"))
        self._services.sessions.trim()

    def stop_all(self, stop: Stop) -> None:
        for attempt in list(self.running.values()):
            attempt.stop_now(stop)

    def cancel(self, run_id: int, attempt_number: int, by: str, reason: str | None) -> None:
        attempt = self.running.get(run_id)
        if attempt is not None and attempt.claim.attempt == attempt_number and not attempt.stop:
            attempt.stop_now(Stop("cancel", by, reason))

    async def close(self) -> None:
        for executor in self._executors.values():
            await executor.close()
        self._services.sessions.close()
