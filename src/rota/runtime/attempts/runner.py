"""Runs one attempt in its slot: call the body, turn what it did into an outcome, hand that on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from rota.config import Config
from rota.config.sections.worker import WorkerSettings
from rota.errors import AttemptTimeout, LeaseLost, PayloadError
from rota.executors.process import FINISHED, Wear
from rota.executors.remote import ChildDied
from rota.executors.threads import ThreadExecutor
from rota.jobs.context import Context
from rota.jobs.definition import JobDefinition
from rota.jobs.encoding import encode_result
from rota.jobs.registry import Registry
from rota.model.outcome import (
    CUT_OFF,
    EXPIRED,
    Ended,
    Outcome,
    Policy,
    cancelled_by,
    decide,
    lost_apart,
    not_begun,
)
from rota.model.run import Claim
from rota.runtime.attempts.attempt import RunningAttempt, Services, Stop, Timeouts
from rota.runtime.attempts.children import Children, NoChild
from rota.runtime.attempts.failure import describe
from rota.runtime.attempts.sql_runner import make_call, outcome_of
from rota.runtime.claiming.feeder import Feeder
from rota.runtime.duties.sql_jobs import SqlJob, SqlJobs
from rota.telemetry import capture, parent
from rota.telemetry.logger import get_logger

# How long a thread that was told to stop may take before its slot goes on without it.
_THREAD_GRACE = 5.0


class Runner:
    """Knows how to run the jobs of a registry, and those of the database that are SQL; one for
    each worker identity."""

    def __init__(
        self, *, config: Config, registry: Registry, services: Services, worker: int,
        app_ref: str | None, threads: ThreadExecutor, sql_jobs: SqlJobs,
        random_number: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._config = config
        self._services = services
        self._worker = worker
        self._random = random_number
        self._definitions: Mapping[str, JobDefinition] = {it.name: it for it in registry}
        self._threads = threads
        self._sql_jobs = sql_jobs
        self.children = Children(
            services=services,
            size=config.worker.concurrency,
            app_ref=app_ref,
            result_bytes=config.runs.result_bytes,
            wear=_wear(config.worker),
        )
        self._result_bytes = config.runs.result_bytes
        self._default_timeout = config.runs.timeout_seconds
        self._log = get_logger("worker")
        self.running: dict[int, RunningAttempt] = {}
        # Who else wants to know of timeouts: a supervisor.
        self.timeouts: Timeouts | None = None
        self.feeder: Feeder

    def serve(self, feeder: Feeder) -> None:
        """Ends go there."""
        self.feeder = feeder

    def use(self, definitions: Mapping[str, JobDefinition]) -> None:
        """Definitions whose entries are exchanged when an operator changes them."""
        self._definitions = definitions

    @property
    def definitions(self) -> Mapping[str, JobDefinition]:
        return self._definitions

    async def run(self, claim: Claim, task: asyncio.Task[None]) -> None:
        """The body of a slot. Nothing that a handler raises leaves this function."""
        definition = self._definitions.get(claim.job) or self._sql_jobs.get(claim.job)
        timeout = claim.timeout_seconds or definition.timeout or self._default_timeout
        attempt = RunningAttempt(claim, definition, self._worker, timeout, self._services, task)
        self._begin(attempt)
        capture_token, parent_token = None, parent.begin(claim.id)
        try:
            if claim.is_expired:
                self.feeder.ended(claim, 0.0, EXPIRED)
                return
            if isinstance(definition, SqlJob):
                await self._claimed(attempt)
                await self._run_sql(attempt)
                return
            executor = "process" if claim.id in self.children.apart else definition.executor
            if attempt.is_captured and executor == "async":
                capture_token = capture.begin(attempt.store_log)
            if executor == "async":
                arguments = self._arguments(definition, attempt)
                if self.feeder.claim_commit is not None:
                    await self._claimed(attempt)
                result = await definition.function(**arguments)
            else:
                await self._claimed(attempt)
                call = self._call_thread if executor == "thread" else self._call_process
                result = await call(definition, attempt)
            if result is FINISHED or attempt.transaction is not None:
                await self._complete(attempt, result)
                return
            if attempt.stop is not None:
                raise asyncio.CancelledError
            text = None if result is None else self._encode(result)
            duration = (time.monotonic() - attempt.started) * 1000
            self.feeder.succeeded(claim, duration, text)
        except BaseException as error:
            await self._failed(attempt, error, task)
        finally:
            self._end(attempt)
            attempt.log_is_over()
            parent.end(parent_token)
            if capture_token is not None:
                capture.end(capture_token)

    def _begin(self, attempt: RunningAttempt) -> None:
        self.running[attempt.claim.id] = attempt
        if self.timeouts is not None:
            self.timeouts.begin(attempt)

    def _end(self, attempt: RunningAttempt) -> None:
        del self.running[attempt.claim.id]
        if self.timeouts is not None:
            self.timeouts.end(attempt)

    async def _claimed(self, attempt: RunningAttempt) -> None:
        """Ready: from here on it must not be forgotten that it was claimed."""
        claim_commit = self.feeder.claim_commit
        if claim_commit is not None and not claim_commit.is_over:
            await claim_commit.wait()
            attempt.started = time.monotonic()

    def _encode(self, result: Any) -> str | None:
        raw = result if type(result) is Encoded else encode_result(result, self._result_bytes)
        return None if raw is None else raw.decode()

    def _arguments(self, definition: JobDefinition, attempt: RunningAttempt) -> dict[str, Any]:
        schema, claim = definition.schema, attempt.claim
        try:
            arguments = schema.decode(claim.payload, claim.validated_by == schema.hash)
        except PayloadError as error:
            raise _Refused(error) from error
        if schema.context_parameter is not None:
            arguments[schema.context_parameter] = Context(attempt)
        return arguments

    async def _call_thread(self, definition: JobDefinition, attempt: RunningAttempt) -> Any:
        """A thread cannot be cancelled: it is told, and after a grace left behind."""
        arguments = self._arguments(definition, attempt)
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        attempt.tell_instead(lambda: loop.call_soon(told.set))
        body = partial(definition.function, **arguments)
        call = self._threads.call(partial(self._in_thread, attempt, body))
        stopped = loop.create_task(told.wait())
        try:
            await asyncio.wait((call, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                await asyncio.wait((call,), timeout=_THREAD_GRACE)
            if call.done():
                return call.result()
            if attempt.transaction is not None:
                attempt.transaction.abandon()
            raise asyncio.CancelledError
        finally:
            stopped.cancel()
            call.cancel()

    def _in_thread(self, attempt: RunningAttempt, body: Callable[[], Any]) -> Any:
        """In a thread, whose context is its own. Drivers and ORMs may know a connection by its
        thread, so what the handler wrote is completed here, too."""
        parent.begin(attempt.claim.id)
        if attempt.is_captured:
            capture.begin(attempt.store_log)
        try:
            result = body()
            transaction = attempt.transaction
            if transaction is None or not transaction.is_open or attempt.stop is not None:
                return result
            text = None if result is None else self._encode(result)
            transaction.complete_sync(attempt.duration_ms, text)
            return FINISHED
        finally:
            if attempt.transaction is not None:
                attempt.transaction.close_sync()

    async def _call_process(self, definition: JobDefinition, attempt: RunningAttempt) -> Any:
        result = await self.children.call(definition, attempt)
        return result if result is None or result is FINISHED else Encoded(result)

    async def _complete(self, attempt: RunningAttempt, result: Any) -> None:
        """The handler used a transaction: its completion is part of it."""
        if result is not FINISHED:
            if attempt.stop is not None:
                raise asyncio.CancelledError
            text, transaction = (
                None if result is None else self._encode(result),
                attempt.transaction,
            )
            if transaction is None or not transaction.is_open:
                self.feeder.succeeded(attempt.claim, attempt.duration_ms, text)
                return
            await transaction.complete(attempt.duration_ms, text)
        self.feeder.already_ended(attempt.claim, attempt.duration_ms)

    async def _run_sql(self, attempt: RunningAttempt) -> None:
        """The end is written by the call itself, except of what commits by itself."""
        claim, policy = attempt.claim, self._policy(attempt)
        end = await make_call(attempt, self._services).run(
            lambda answer: outcome_of(answer, claim, policy, self._result_bytes)
        )
        self._say(attempt, end.outcome)
        if end.is_written:
            self.feeder.already_ended(claim, end.duration_ms, end.outcome.attempt_state)
        else:
            self.feeder.ended(claim, end.duration_ms, end.outcome)

    async def _failed(
        self, attempt: RunningAttempt, error: BaseException, task: asyncio.Task[None]
    ) -> None:
        if attempt.stop is not None:
            while task.uncancel():
                pass
        if attempt.transaction is not None:
            await attempt.transaction.close()
        outcome = self._outcome(attempt, error)
        if outcome is None:
            self.feeder.wake()
            return
        self._say(attempt, outcome)
        self.feeder.ended(attempt.claim, attempt.duration_ms, outcome)

    def _outcome(self, attempt: RunningAttempt, error: BaseException) -> Outcome | None:
        """None: the run is somebody else's, there is nothing to write."""
        stop = attempt.stop
        if isinstance(error, LeaseLost) or (stop is not None and stop.kind == "lost"):
            return None
        if stop is not None and stop.kind == "cancel":
            return cancelled_by(stop.by, stop.reason)
        if stop is not None and stop.kind == "shutdown":
            return CUT_OFF
        if stop is not None and stop.kind == "timeout":
            error = AttemptTimeout(attempt.timeout or 0.0).with_traceback(error.__traceback__)
        claim = attempt.claim
        if isinstance(error, NoChild):
            self._log.error("a run could not be isolated", run=claim.id, error=error)
            return not_begun(str(error))
        if isinstance(error, _Refused):
            # No later attempt would find another payload.
            failure = describe(error.cause, self._config.runs.error_bytes)
            return Ended("failed", "failed", "payload refused", failure=failure)
        failure = describe(error, self._config.runs.error_bytes)
        if isinstance(error, ChildDied) and claim.id in self.children.apart:
            return lost_apart(failure, claim.attempts_used, claim.max_attempts)
        policy = self._policy(attempt)
        return decide(error, failure, policy, claim.attempts_used, claim.max_attempts)

    def _policy(self, attempt: RunningAttempt) -> Policy:
        rest = msgspec.json.decode(attempt.claim.rest) if attempt.claim.rest else {}
        return attempt.definition.policy(self._config, self._random, rest.get("backoff"))

    def _say(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        if outcome.failure is not None:
            self._log.warning(
                "attempt failed",
                job=attempt.claim.job,
                run=attempt.claim.id,
                attempt=attempt.claim.attempt,
                error=f"{outcome.failure.error_type}: {outcome.failure.error[:200]}",
            )
            attempt.log_failure(outcome.failure, self._config.logs.line_bytes // 2)

    # Stopping what runs.

    def stop_overdue(self) -> None:
        """Called a few times a second: one look over the running, and over what they have left,
        instead of a timer for each."""
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
        await self.children.close()
        self._services.sessions.close()


class Encoded(bytes):
    """A result that a child process has already turned into JSON."""


class _Refused(Exception):
    """The payload does not fit: written past the edge, or before the signature changed."""

    def __init__(self, cause: PayloadError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _wear(config: WorkerSettings) -> Wear:
    memory = config.child_max_memory_mb
    return Wear(config.child_max_runs, None if memory is None else memory * 2**20)
