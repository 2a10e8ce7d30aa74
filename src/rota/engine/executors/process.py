"""The kind `process`: a handler, called in one of the worker's child processes."""

from __future__ import annotations

import logging

from rota.engine.executors.base import (
    CalledAttempt,
    CallOutcome,
    CommittedItself,
    Executor,
    ExecutorContext,
    Returned,
)
from rota.engine.executors.child_pool import ChildCall, ChildPool, Finished, Wear
from rota.engine.executors.location import locate
from rota.engine.executors.wire import Work
from rota.telemetry import otel

# Time for an idle child to end: lifespans, exit handlers.
LEAVE_SECONDS = 5.0


class ProcessExecutor(Executor):
    def __init__(self, means: ExecutorContext) -> None:
        super().__init__(means)
        self._pool: ChildPool | None = None

    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        if self._pool is None:
            worker = self._means.config.worker
            memory = worker.child_max_memory_mb
            self._pool = ChildPool(
                size=worker.concurrency,
                app_ref=self._means.app_ref,
                wear=Wear(worker.child_max_runs, None if memory is None else memory * 2**20),
            )
        return outcome_of(await self._pool.call(child_call(attempt, self._means)))

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close(grace=LEAVE_SECONDS)


def child_call(attempt: CalledAttempt, means: ExecutorContext) -> ChildCall:
    return ChildCall(
        _work(attempt, means),
        attempt.write_log,
        attempt.report_progress,
        on_printed=attempt.store_log,
    )


def outcome_of(answer: bytes | Finished | None) -> CallOutcome:
    if isinstance(answer, Finished):
        return CommittedItself()
    return Returned(None if answer is None else answer.decode())


def _work(attempt: CalledAttempt, means: ExecutorContext) -> Work:
    claim, handler = attempt.claim, attempt.handler
    return Work(
        location=locate(handler.function),
        claim=claim,
        worker=attempt.worker,
        started_at=attempt.started_at,
        timeout=attempt.timeout,
        database_url=means.database.url,
        schema=means.database.schema,
        lease_seconds=means.config.worker.lease_seconds,
        result_bytes=means.config.runs.result_bytes,
        context_parameter=handler.schema.context_parameter,
        is_validated=claim.validated_by == handler.schema.hash,
        trace=otel.carrier(),
        captured_level=logging.getLogger().level if attempt.is_captured else None,
    )
