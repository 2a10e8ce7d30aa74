"""A context for handlers that a unit test calls itself: no database, no worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from rota.jobs.context import Context
from rota.jobs.decorator import BoundJob
from rota.jobs.values import check_duration
from rota.model.durations import Duration
from rota.model.run import Claim


class LoggedLine(NamedTuple):
    """A line that the handler wrote to `ctx.log`."""

    level: str
    message: str
    fields: Mapping[str, Any]


class UnitAttempt:
    """The side of the runtime that a context speaks to; here it remembers."""

    worker = 0

    def __init__(
        self, claim: Claim, timeout: float | None, connection: Any, state: Mapping[str, Any]
    ) -> None:
        self.claim = claim
        self.timeout = timeout
        self.started_at = claim.claimed_at
        self.is_cancelled = False
        self.state = state
        self.lines: list[LoggedLine] = []
        self.progress: list[tuple[float, str | None]] = []
        self._connection = connection

    def write_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        self.lines.append(LoggedLine(level, message, dict(fields)))

    def report_progress(self, fraction: float, message: str | None) -> None:
        self.progress.append((fraction, message))

    def open_transaction(self, source: Any) -> AbstractAsyncContextManager[Any]:
        return self._lend()

    def open_transaction_sync(self, source: Any) -> AbstractContextManager[Any]:
        return self._lend_sync()

    @asynccontextmanager
    async def _lend(self) -> AsyncIterator[Any]:
        yield self._given()

    @contextmanager
    def _lend_sync(self) -> Iterator[Any]:
        yield self._given()

    def _given(self) -> Any:
        if self._connection is None:
            raise RuntimeError(
                "the handler uses a transaction: pass the connection or session that it should"
                " get to context(connection=…)"
            )
        return self._connection


class UnitContext(Context):
    """A context that records what the handler did with it."""

    __slots__ = ("_unit",)

    def __init__(self, attempt: UnitAttempt) -> None:
        super().__init__(attempt)
        self._unit = attempt

    @property
    def lines(self) -> list[LoggedLine]:
        """The lines written to `ctx.log`."""
        return self._unit.lines

    @property
    def progresses(self) -> list[tuple[float, str | None]]:
        """The calls of `ctx.progress`."""
        return self._unit.progress

    def cancel(self) -> None:
        """Set `ctx.is_cancelled`."""
        self._unit.is_cancelled = True


def context(
    job: BoundJob | str = "job",
    *,
    run_id: int = 1,
    attempt: int = 1,
    max_attempts: int = 3,
    queue: str = "default",
    priority: int = 5,
    tenant: str = "",
    key: str | None = None,
    tags: list[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    triggered_by: Mapping[str, Any] | None = None,
    schedule: str | None = None,
    scheduled_for: datetime | None = None,
    started_at: datetime | None = None,
    lateness: Duration = 0,
    timeout: Duration | None = None,
    connection: Any = None,
    state: Mapping[str, Any] | None = None,
) -> UnitContext:
    """Create a context for calling a handler directly: `await send(context(attempt=2), user_id=7)`.

    `connection` is returned by the blocks of `ctx.transaction()`, whatever source they name; the
    test commits or rolls it back. `state` is what the lifespans of the application would yield.
    """
    now = started_at or datetime.now(UTC)
    meant_for = now - timedelta(seconds=check_duration("lateness", lateness, least=0))
    extras = {
        "key": key,
        "tags": tags or [],
        "metadata": dict(metadata or {}),
        "triggered_by": dict(triggered_by) if triggered_by else None,
        "schedule": schedule,
        "scheduled_for": scheduled_for and scheduled_for.isoformat(),
        "run_at": meant_for.isoformat(),
    }
    claim = Claim(
        id=run_id,
        seq=run_id,
        attempt=attempt,
        attempts_used=attempt,
        max_attempts=max_attempts,
        priority=priority,
        queue=queue,
        job=job if isinstance(job, str) else job.name,
        payload=b"{}",
        validated_by=None,
        timeout_seconds=None,
        is_expired=None,
        is_suspect=False,
        enqueued_at=meant_for,
        claimed_at=now,
        extras=msgspec.json.encode(extras),
        tenant=tenant,
    )
    limit = None if timeout is None else check_duration("timeout", timeout)
    return UnitContext(UnitAttempt(claim, limit, connection, dict(state or {})))
