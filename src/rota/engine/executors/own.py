"""Transactions of handlers on Rota's own sessions, which are kept, lent and reset."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import AsyncClientCursor, ClientCursor
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import tuple_row

from rota.engine.executors.attempt_session import AttemptSession
from rota.engine.executors.ending import Rows
from rota.errors import JobError
from rota.postgres.sessions import handlers
from rota.postgres.sessions.borrowed import AsyncBorrowedConnection, BorrowedConnection, detach
from rota.postgres.sessions.connection import AsyncBoundedConnection, BoundedConnection, shut
from rota.postgres.sessions.session_cache import SessionCache
from rota.postgres.statements import Statements

_OPENED = TransactionStatus.INTRANS
_UNDONE = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
# Statements without users' code respond within this time, or the session is discarded.
_SOON = 10.0
# Deferred triggers may take their time.
_LONG = 86_400.0


class OwnAsync:
    """`ctx.transaction()` of handlers that are coroutines."""

    is_strict = False  # its sessions use READ COMMITTED

    def __init__(
        self, sessions: SessionCache, statements: Statements, lending: AttemptSession
    ) -> None:
        self._sessions = sessions
        self._statements = statements
        self._lending = lending
        self._conn: AsyncBorrowedConnection | None = None
        self._link: AsyncBoundedConnection | None = None
        self._moment: Any = None

    async def begin(self) -> None:
        try:
            await self._open(await self._sessions.get())
        except psycopg.OperationalError:
            # A kept session may have been closed, or hang, without notice.
            await self._open(await self._sessions.get(is_new=True))

    async def _open(self, handle: PGconn) -> None:
        link = AsyncBoundedConnection(handle)
        link.answer_seconds = _SOON
        try:
            await link.set_autocommit(True)
            self._moment = (await _last(link, self._lending.open()))[-1]
        except BaseException:
            self._sessions.drop(detach(link))
            raise
        self._conn = AsyncBorrowedConnection(detach(link))
        self._conn.prepare_threshold = None

    @asynccontextmanager
    async def block(self) -> AsyncIterator[AsyncBorrowedConnection]:
        assert self._conn is not None
        async with self._conn.transaction():
            yield self._conn

    async def settle(self) -> None:
        """Take the session back from the handler."""
        assert self._conn is not None
        async with self._conn.lock:
            self._link = link = AsyncBoundedConnection(detach(self._conn))
        check_open(link.pgconn)
        link.answer_seconds = _LONG
        check_same(self._moment, (await _last(link, self._lending.end()))[0])
        del link.answer_seconds

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        assert self._link is not None
        async with self._link.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), parameters or None)
            return await cursor.fetchall() if cursor.description else []

    async def commit(self) -> None:
        await self.fetch(*handlers.commit(self._statements))

    async def close(self) -> None:
        link, self._link = self._link, None
        conn, self._conn = self._conn, None
        if link is None and conn is not None:
            link = AsyncBoundedConnection(detach(conn))
        if link is None:
            return
        link.answer_seconds = _SOON
        try:
            if link.pgconn.transaction_status in _UNDONE:
                with suppress(psycopg.Error):
                    await link.execute(handlers.rollback(self._statements)[0].encode())
        finally:
            self._sessions.put(detach(link))


class OwnSync:
    """`ctx.transaction()` of handlers in a thread or a process."""

    is_strict = False

    def __init__(
        self, sessions: SessionCache, statements: Statements, lending: AttemptSession
    ) -> None:
        self._sessions = sessions
        self._statements = statements
        self._lending = lending
        self._conn: BorrowedConnection | None = None
        self._link: BoundedConnection | None = None
        self._moment: Any = None

    def begin(self) -> None:
        try:
            self._open(self._sessions.get_sync())
        except psycopg.OperationalError:
            self._open(self._sessions.get_sync(is_new=True))

    def _open(self, handle: PGconn) -> None:
        link = BoundedConnection(handle)
        link.answer_seconds = _SOON
        try:
            link.autocommit = True
            self._moment = _last_sync(link, self._lending.open())[-1]
        except BaseException:
            self._sessions.drop(detach(link))
            raise
        self._conn = BorrowedConnection(detach(link))
        self._conn.prepare_threshold = None

    @contextmanager
    def block(self) -> Iterator[BorrowedConnection]:
        assert self._conn is not None
        with self._conn.transaction():
            yield self._conn

    def settle(self) -> None:
        assert self._conn is not None
        with self._conn.lock:
            self._link = link = BoundedConnection(detach(self._conn))
        check_open(link.pgconn)
        link.answer_seconds = _LONG
        check_same(self._moment, _last_sync(link, self._lending.end())[0])
        del link.answer_seconds

    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        assert self._link is not None
        with self._link.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        self.fetch(*handlers.commit(self._statements))

    def close(self) -> None:
        link, self._link = self._link, None
        conn, self._conn = self._conn, None
        if link is None and conn is not None:
            link = BoundedConnection(detach(conn))
        if link is None:
            return
        link.answer_seconds = _SOON
        try:
            if link.pgconn.transaction_status in _UNDONE:
                with suppress(psycopg.Error):
                    link.execute(handlers.rollback(self._statements)[0].encode())
        finally:
            self._sessions.put(detach(link))

    def abandon(self) -> None:
        """The thread was abandoned, and may still use the session: make all its statements fail."""
        conn = self._link or self._conn
        if conn is not None:
            shut(conn)


def check_open(handle: PGconn) -> None:
    status = TransactionStatus(handle.transaction_status)
    if status != _OPENED:
        raise JobError(
            f"the transaction of this attempt cannot be committed, it is {status.name}: "
            "the handler ended it, left an error in it, or left a statement running"
        )


def check_same(begun: Any, now: Any) -> None:
    """Check that the handler did not commit: its writes would lack the fence and the completion."""
    if begun != now:
        raise JobError(
            "the handler ended the transaction of this attempt, so its writes may have been "
            "committed without its completion",
            hint="do not issue COMMIT or ROLLBACK: return to commit, raise to roll back",
        )


async def _last(link: AsyncBoundedConnection, statement: tuple[str, dict[str, Any]]) -> Any:
    """Return the last row of several statements."""
    cursor, row = AsyncClientCursor(link, row_factory=tuple_row), None
    await cursor.execute(statement[0].encode(), statement[1])
    while True:
        if cursor.description:
            row = await cursor.fetchone()
        if not cursor.nextset():
            return row


def _last_sync(link: BoundedConnection, statement: tuple[str, dict[str, Any]]) -> Any:
    cursor, row = ClientCursor(link, row_factory=tuple_row), None
    cursor.execute(statement[0].encode(), statement[1])
    while True:
        if cursor.description:
            row = cursor.fetchone()
        if not cursor.nextset():
            return row
