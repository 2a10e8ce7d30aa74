"""Bodies that are called in child processes: because their job says so, or to be isolated."""

from __future__ import annotations

import logging

from rota.errors import RotaError
from rota.executors.location import locate
from rota.executors.process import Finished, ProcessCall, ProcessExecutor, Wear, Work
from rota.jobs.definition import JobDefinition
from rota.runtime.attempts.attempt import RunningAttempt, Services
from rota.telemetry import otel

_LEAVE_SECONDS = 1.0


class NoChild(Exception):
    """No process of its own could be started for a run: its body was not called."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"a separate process could not be started: {cause}")


class Children:
    """The child processes of one worker identity."""

    def __init__(
        self, *, services: Services, size: int, app_ref: str | None, result_bytes: int, wear: Wear
    ) -> None:
        self._services = services
        self._wear = wear
        self._size = size
        self._app_ref = app_ref
        self._result_bytes = result_bytes
        self._pool: ProcessExecutor | None = None
        # Runs whose body gets a process of its own, whatever their job says.
        self.apart: set[int] = set()
        # Whether one could be started whenever that was tried.
        self.may_start = True

    async def call(
        self, definition: JobDefinition, attempt: RunningAttempt
    ) -> bytes | Finished | None:
        call = ProcessCall(
            self._work(definition, attempt),
            attempt.write_log,
            attempt.report_progress,
            on_printed=attempt.store_log,
        )
        if attempt.claim.id in self.apart:
            return await self._call_apart(call)
        if self._pool is None:
            self._pool = ProcessExecutor(size=self._size, app_ref=self._app_ref, wear=self._wear)
        return await self._pool.call(call)

    async def _call_apart(self, call: ProcessCall) -> bytes | Finished | None:
        """In a child that nobody had before it or has after it: what kills it is this run."""
        executor = ProcessExecutor(size=1, app_ref=self._app_ref)
        try:
            try:
                await executor.prepare()
            except (OSError, RotaError) as error:
                self.may_start = False
                raise NoChild(error) from error
            return await executor.call(call)
        finally:
            await executor.close(grace=_LEAVE_SECONDS)

    def _work(self, definition: JobDefinition, attempt: RunningAttempt) -> Work:
        claim, schema, services = attempt.claim, definition.schema, self._services
        return Work(
            location=locate(definition.function),
            claim=claim,
            worker=attempt.worker,
            started_at=attempt.started_at,
            timeout=attempt.timeout,
            database_url=services.database.url,
            schema=services.database.schema,
            lease_seconds=services.lease_seconds,
            result_bytes=self._result_bytes,
            context_parameter=schema.context_parameter,
            is_validated=claim.validated_by == schema.hash,
            trace=otel.carrier(),
            captured_level=logging.getLogger().level if attempt.is_captured else None,
        )

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close(grace=_LEAVE_SECONDS)
