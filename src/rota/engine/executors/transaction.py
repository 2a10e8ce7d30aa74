"""`ctx.transaction()`: the writes of a handler commit together with its completion, or not at all.

Leaving a block releases a savepoint; the commit is sent when the handler returns. The fence is the
last statement and not the first: a row lock from the start would block cancel and rescue for as
long as the handler runs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

from rota.engine.executors import ending
from rota.engine.executors.attempt_session import AttemptSession
from rota.engine.executors.guests import make_async_way, make_way
from rota.engine.executors.guests.base import Terms
from rota.engine.executors.own import OwnAsync, OwnSync
from rota.engine.executors.transaction_drivers import AsyncTransactionDriver, TransactionDriver
from rota.errors import JobError
from rota.model.run import Claim
from rota.postgres.sessions.identity import SessionIdentity
from rota.postgres.sessions.session_cache import SessionCache
from rota.postgres.statements import Statements

_WRITE_PAUSE = 0.005


class ProgressHold(Protocol):
    """The reports that are written about an attempt's run outside of its transaction."""

    def hold(self, run_id: int, attempt: int) -> bool:
        """Stop writing about the attempt. Return False while a write is under way: call again."""

    def release(self, run_id: int, attempt: int) -> None: ...


class AttemptTransaction:
    """The one transaction of an attempt; async or sync like the handler. Each block is a savepoint
    in it."""

    def __init__(
        self,
        sessions: SessionCache,
        schema: str,
        claim: Claim,
        worker: int,
        lease_seconds: float,
        progress: ProgressHold | None = None,
    ) -> None:
        self._progress = progress
        self._sessions = sessions
        self._statements = Statements(schema)
        self._claim = claim
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._lending = AttemptSession(self._statements, claim, worker, lease_seconds)
        self._beginning = asyncio.Lock()
        self._beginning_sync = threading.Lock()
        self._source: Any = None
        self._way: AsyncTransactionDriver | None = None
        self._sync_way: TransactionDriver | None = None
        self._is_abandoned = False

    @property
    def is_strict(self) -> bool:
        """Return whether concurrent writes to the run would make the transaction fail (40001)."""
        way = self._way or self._sync_way
        return way is not None and way.is_strict

    @property
    def is_open(self) -> bool:
        return self._way is not None or self._sync_way is not None

    @asynccontextmanager
    async def block(self, source: Any = None) -> AsyncIterator[Any]:
        async with self._beginning:
            self._check(self._sync_way, "transaction_sync()", self._way, source)
            if self._way is None:
                way = self._make_async_way(source)
                while source is not None and not self._hold():  # noqa: ASYNC110
                    await asyncio.sleep(_WRITE_PAUSE)
                try:
                    await way.begin()
                except BaseException:
                    self._release()
                    await way.close()
                    raise
                self._way, self._source = way, source
                if not way.is_strict:
                    self._release()
        async with self._way.block() as given:
            yield given

    @contextmanager
    def block_sync(self, source: Any = None) -> Iterator[Any]:
        with self._beginning_sync:
            self._check(self._way, "transaction()", self._sync_way, source)
            if self._sync_way is None:
                way = self._make_way(source)
                while source is not None and not self._hold():
                    time.sleep(_WRITE_PAUSE)
                try:
                    way.begin()
                except BaseException:
                    self._release()
                    way.close()
                    raise
                self._sync_way, self._source = way, source
                if not way.is_strict:
                    self._release()
        with self._sync_way.block() as given:
            yield given

    def _hold(self) -> bool:
        """Hold the run before the transaction begins, because the isolation level of the user's
        connection is not yet known."""
        claim, progress = self._claim, self._progress
        return progress is None or progress.hold(claim.id, claim.attempt)

    def _release(self) -> None:
        if self._progress is not None:
            self._progress.release(self._claim.id, self._claim.attempt)

    def _make_async_way(self, source: Any) -> AsyncTransactionDriver:
        if source is None:
            return OwnAsync(self._sessions, self._statements, self._lending)
        return make_async_way(source, self._terms())

    def _make_way(self, source: Any) -> TransactionDriver:
        if source is None:
            return OwnSync(self._sessions, self._statements, self._lending)
        return make_way(source, self._terms())

    def _terms(self) -> Terms:
        return Terms(
            self._statements, self._lending, SessionIdentity(self._sessions, self._statements)
        )

    def _check(self, other: object, name: str, way: object, source: Any) -> None:
        if other is not None:
            raise JobError(f"this attempt already uses {name}; use one of the two")
        if way is not None and source is not self._source:
            raise JobError(
                "this attempt already has a transaction on another connection; it can have only one"
            )

    async def complete(self, duration_ms: float, result: str | None) -> None:
        """Commit effect and completion together. Raise LeaseLost if the run belongs to another
        worker; nothing is committed then."""
        way = self._way
        if way is None:
            await asyncio.to_thread(self.complete_sync, duration_ms, result)
            return
        await way.settle()
        await ending.carry_out(self._steps(duration_ms, result), way.fetch)
        await way.commit()
        await self.close()

    def complete_sync(self, duration_ms: float, result: str | None) -> None:
        way = self._sync_way
        if way is None:
            raise JobError(
                "transaction() needs an event loop, and there is none: use transaction_sync()"
            )
        way.settle()
        ending.carry_out_sync(self._steps(duration_ms, result), way.fetch)
        way.commit()
        self.close_sync()

    def _steps(self, duration_ms: float, result: str | None) -> ending.Steps:
        end = ending.finish(self._statements, self._claim, self._worker, duration_ms, result)
        return ending.write(self._statements, end, self._claim, self._lease_seconds)

    async def close(self) -> None:
        """Close the transaction. Without a preceding `complete`, everything is rolled back."""
        way, self._way = self._way, None
        if way is not None:
            await way.close()
            self._release()
        if self._sync_way is not None and not self._is_abandoned:
            await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        way, self._sync_way = self._sync_way, None
        if way is not None:
            way.close()
            self._release()

    def abandon(self) -> None:
        """The thread was abandoned. It closes the transaction itself, if it ever returns."""
        self._is_abandoned = True
        if self._sync_way is not None:
            self._sync_way.abandon()
