"""A running attempt: the counterpart of its context, and how it is stopped."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from sys import modules
from typing import Any, Literal

import msgspec

from rota.config import Config
from rota.engine.attempts.failure import cut_head
from rota.engine.attempts.progress import ProgressBoard
from rota.engine.executors.frameworks import DJANGO, inside_frameworks
from rota.engine.executors.transaction import AttemptTransaction
from rota.engine.logs.log_buffer import LogBuffer
from rota.engine.loops.sql_jobs import SqlJob
from rota.errors import PayloadError
from rota.jobs.context import Context
from rota.jobs.definition import JobDefinition
from rota.jobs.encoding import encode_result
from rota.jobs.upgrade import take
from rota.model.hook import Hook
from rota.model.outcome import Failure, Policy
from rota.model.run import Claim
from rota.postgres.sessions.pool import Database
from rota.postgres.sessions.session_cache import SessionCache
from rota.telemetry.logging import LEVELS, print_line, print_traceback

_NUDGE_SECONDS = 5.0

StopKind = Literal["timeout", "cancel", "lost", "shutdown"]


@dataclass(frozen=True, slots=True)
class Services:
    """Services that running attempts share."""

    config: Config
    database: Database
    sessions: SessionCache
    logs: LogBuffer
    progress: ProgressBoard
    stored_level: int
    lease_seconds: float
    is_capturing: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    random_number: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True)
class Stop:
    kind: StopKind
    by: str = ""
    reason: str | None = None


class PayloadRefused(Exception):
    """The payload does not fit the handler: it was enqueued without validation, or before the
    signature changed."""

    def __init__(self, cause: PayloadError, intake: int, signature: int) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.intake = intake
        self.signature = signature


class RunningAttempt:
    """The counterpart of a handler's context (`rota.jobs.context.Attempt`) and of executors
    (`rota.engine.executors.base.CalledAttempt`), inside the worker."""

    __slots__ = (
        "_on_stop",
        "_services",
        "_stopped",
        "_task",
        "arguments",
        "around",
        "body",
        "claim",
        "context",
        "definition",
        "has_lines",
        "log_seqs",
        "logged_exception",
        "started",
        "stop",
        "timeout",
        "transaction",
        "worker",
    )

    def __init__(
        self,
        claim: Claim,
        definition: JobDefinition | SqlJob,
        worker: int,
        timeout: float | None,
        services: Services,
        task: asyncio.Task[None],
    ) -> None:
        self.claim = claim
        self.definition = definition
        self.worker = worker
        self.timeout = timeout
        self.started = time.monotonic()
        self.stop: Stop | None = None
        self.transaction: AttemptTransaction | None = None
        self._services = services
        self._task = task
        self._on_stop: Callable[[], object] | None = None
        self.log_seqs: Iterator[int] = count(1)
        self.has_lines = False
        self.logged_exception = ""

    # Used by executors.

    body: Callable[..., Any]
    arguments: dict[str, Any]
    around: tuple[Hook, ...]
    context: Context

    @property
    def handler(self) -> JobDefinition:
        definition = self.definition
        assert isinstance(definition, JobDefinition)
        return definition

    def bind(self, is_newer: bool = False) -> None:
        """Decode the payload; validate it again only if its schema has changed."""
        definition = self.handler
        schema = definition.schema
        arguments = self._decode(is_newer)
        around = definition.hooks.around_attempt
        if DJANGO in modules:
            around = inside_frameworks(around, is_async=definition.executor == "async")
        if schema.context_parameter is not None:
            self.context = arguments[schema.context_parameter] = Context(self)
        elif around:
            self.context = Context(self)
        self.around = around
        self.body, self.arguments = definition.function, arguments

    def check_payload(self, is_newer: bool = False) -> None:
        """Validate the payload of a handler that another process calls; that process decodes it
        itself."""
        if self.claim.validated_by != self.handler.schema.hash:
            self._decode(is_newer)

    def _decode(self, is_newer: bool) -> dict[str, Any]:
        definition, claim = self.handler, self.claim
        schema = definition.schema
        try:
            if claim.validated_by == schema.hash:
                return schema.decode(claim.payload, True)
            payload, arguments = take(
                schema, definition.upgrade, claim.payload, claim.validated_by, is_newer=is_newer
            )
        except PayloadError as error:
            raise PayloadRefused(error, definition.intake, schema.hash) from error
        if payload is not claim.payload:
            self.claim = claim._replace(payload=payload)
        return arguments

    def encode(self, result: Any) -> str | None:
        raw = encode_result(result, self._services.config.runs.result_bytes)
        return None if raw is None else raw.decode()

    def policy(self) -> Policy:
        """Return the job's policy for failures; a backoff of the run takes precedence."""
        extras = msgspec.json.decode(self.claim.extras) if self.claim.extras else {}
        services = self._services
        return self.definition.policy(
            services.config, services.random_number, extras.get("backoff")
        )

    # Stopping.

    def stop_now(self, stop: Stop) -> None:
        """Cancel the handler if it can be cancelled. Only once, so that its clean-up has time."""
        if self.stop is not None:
            return
        self._stopped = time.monotonic()
        self.stop = stop
        if self._on_stop is not None:
            self._on_stop()
        else:
            self._task.cancel()

    def nudge(self) -> None:
        """Cancel again an attempt that was stopped a while ago and still runs: before Python 3.12 a
        cancellation can get lost in `asyncio.wait_for`, which drivers use."""
        if self.stop is None or self._on_stop is not None:
            return
        if time.monotonic() - self._stopped > _NUDGE_SECONDS:
            self._stopped = time.monotonic()
            self._task.cancel()

    def tell_instead(self, on_stop: Callable[[], object]) -> None:
        """Call `on_stop` instead of cancelling the task, for handlers that run in no task."""
        self._on_stop = on_stop

    @property
    def is_overdue(self) -> bool:
        return self.timeout is not None and time.monotonic() - self.started > self.timeout

    @property
    def duration_ms(self) -> float:
        return (time.monotonic() - self.started) * 1000

    # Used by the context.

    @property
    def is_cancelled(self) -> bool:
        return self.stop is not None

    @property
    def started_at(self) -> datetime:
        return self.claim.claimed_at

    @property
    def state(self) -> Mapping[str, Any]:
        return self._services.state

    def write_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        claim, services, now = self.claim, self._services, time.monotonic_ns()
        print_line(claim.job, level, message, claim.id, fields, now)
        own = self.definition.log_level
        if LEVELS[level] >= (services.stored_level if own is None else LEVELS[own]):
            self.has_lines = True
            services.logs.add(self, level, message, fields, now)

    def store_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Store a line that was printed elsewhere."""
        if level == "error" and "exception" in fields:
            self.logged_exception = str(fields["exception"])
        if LEVELS[level] >= self.stored_level:
            self.has_lines = True
            self._services.logs.add(self, level, message, fields, time.monotonic_ns())

    def log_failure(self, failure: Failure, limit: int) -> None:
        """Log a failure as a line of its own, unless the handler has logged the exception before
        raising it."""
        name = failure.error_type.rpartition(".")[2]
        words = failure.error if failure.error == name else f"{name}: {failure.error}"
        if words in self.logged_exception:
            return
        fields = {"error_type": failure.error_type}
        if failure.traceback:
            fields["exception"] = cut_head(failure.traceback, limit)
        level = "warning" if failure.error_type == "Retry" else "error"
        self.store_log(level, f"{failure.error_type}: {failure.error}", fields)
        print_traceback(self.claim.job, failure.traceback or "", self.claim.id)

    @property
    def stored_level(self) -> int:
        """The level of the job, otherwise that of the worker's configuration."""
        own = self.definition.log_level
        return self._services.stored_level if own is None else LEVELS[own]

    @property
    def is_captured(self) -> bool:
        """Return whether lines that the handler emits with logging and structlog are stored too."""
        own = self.definition.capture_logs
        return self._services.is_capturing if own is None else own

    def log_is_over(self) -> None:
        """The attempt has ended: flush its lines soon."""
        if self.has_lines:
            self._services.logs.attempt_ended()

    def report_progress(self, fraction: float, message: str | None) -> None:
        self._services.progress.report(self.claim.id, self.claim.attempt, fraction, message)

    def open_transaction(self, source: Any) -> AbstractAsyncContextManager[Any]:
        return self._ensure_transaction().block(source)

    def open_transaction_sync(self, source: Any) -> AbstractContextManager[Any]:
        return self._ensure_transaction().block_sync(source)

    def _ensure_transaction(self) -> AttemptTransaction:
        if self.transaction is None:
            services = self._services
            self.transaction = AttemptTransaction(
                services.sessions,
                services.database.schema,
                self.claim,
                self.worker,
                services.lease_seconds,
                services.progress,
            )
        return self.transaction
