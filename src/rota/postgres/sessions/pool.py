"""The database as the rest of Rota uses it: one object, opened on first use.

Nothing connects before a connection is requested: importing an application, creating an `App` and
declaring jobs do not access the server.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from sys import modules
from typing import TypeVar

import psycopg

from rota.postgres.errors import translate
from rota.postgres.plans import Plan
from rota.postgres.queries import Query
from rota.postgres.sessions import driving
from rota.postgres.sessions.connection import (
    ANSWER_SECONDS,
    AsyncBoundedConnection,
    AsyncConn,
    BoundedConnection,
    Conn,
)
from rota.postgres.sessions.connection_pools import AsyncPool, SyncPool
from rota.postgres.sessions.opening import AsyncSession, Session, own
from rota.postgres.sessions.outage import Outage, is_unwritable
from rota.postgres.sessions.poolers import check_settings, shares_sessions
from rota.postgres.sessions.refusals import code_of
from rota.postgres.sessions.under_test import TESTS, refuse_real_database
from rota.postgres.statements import Statements

__all__ = ["AsyncConn", "Conn", "Database"]

T = TypeVar("T")
# Interval between two attempts to find out why an unavailable server refuses connections.
_ASK_SECONDS = 30.0


class Database:
    """Pools for async and sync callers, and separate connections for the runtime.

    `prepare` returns the URL; it may start a server and migrate it. `on_open` gets a connection
    once, before any other use. Both are called once in the life of this object. `revive` is called
    when the server does not answer: it may start the server again and return its URL. `direct_url`
    is the same database without a pooler, for statements that need their own session. `given_url`
    is the URL that `prepare` will use, if it is known before.
    """

    def __init__(
        self,
        *,
        schema: str,
        prepare: Callable[[], str],
        on_open: Callable[[Conn], None],
        direct_url: str | None = None,
        given_url: str | None = None,
        revive: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.statements = Statements(schema)
        self.schema = schema
        self._prepare = prepare
        self._on_open = on_open
        self._revive = revive
        self._direct_url = direct_url
        self._given_url = given_url
        self._is_pooled = False
        self.outage = Outage()
        self._url: str | None = None
        self._opening = threading.Lock()
        self._pool: AsyncPool | None = None
        self._pool_loop: asyncio.AbstractEventLoop | None = None
        self._sync_pool: SyncPool | None = None
        self._is_sparing = False
        self._ask_again_at = 0.0
        # Whether a test has chosen this database.
        self.is_for_tests = False
        # Called on each use; wakes a sleeping worker.
        self.on_use: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        return self._url is not None

    @property
    def url(self) -> str:
        """The URL of the database; opens it on first use."""
        return self.open_sync()

    @property
    def session_url(self) -> str:
        """The URL for connections that keep state in their session."""
        return self._direct_url or self.url

    @property
    def has_sessions(self) -> bool:
        """Return whether dedicated sessions are available, for LISTEN and SET. Known once the
        database is open; use `connect(session=True)` to get one."""
        return not self._is_pooled or self._direct_url is not None

    async def open(self) -> str:
        if self._url is not None:
            return self._url
        return await asyncio.to_thread(self.open_sync)

    def open_sync(self) -> str:
        with self._opening:
            if self._url is None:
                if TESTS in modules and not self.is_for_tests:
                    refuse_real_database(self._given_url)
                with translate():
                    try:
                        url = self._prepare()
                    except psycopg.OperationalError as error:
                        if self._given_url is not None:
                            self._find_cause(error, self._given_url)
                        raise
                    with Session.connect(url, **own("rota")) as conn:
                        self._is_pooled = shares_sessions(
                            conn, lambda: Session.connect(url, **own("rota"))
                        )
                        if self._is_pooled:
                            check_settings(conn)
                        self._on_open(conn)
                self._url = url
            return self._url

    def spare(self) -> None:
        """Use as few connections as possible from now on: a worker has many loops."""
        self._is_sparing = True
        if self._pool is not None:
            self._pool.is_sparing = True

    def rest(self) -> None:
        """Close idle connections."""
        if self._pool is not None:
            self._pool.clear()
        with self._opening:
            if self._sync_pool is not None:
                self._sync_pool.clear()

    def used(self) -> None:
        if TESTS in modules and self._url is not None and not self.is_for_tests:
            refuse_real_database(self._url)
        if self.on_use is not None:
            self.on_use()

    def connection(self, *, is_hurried: bool = True) -> _Borrowed:
        """Lend a pooled connection in autocommit mode; `is_hurried` is False if no caller waits for
        the result."""
        return _Borrowed(self, is_hurried)

    def connection_sync(self) -> _BorrowedSync:
        return _BorrowedSync(self)

    async def run(self, plan: Plan[T]) -> T:
        """Carry out a plan in one transaction."""
        with translate():
            async with self.connection() as conn, conn.transaction():
                return await driving.drive(conn, self.statements, plan)

    def run_sync(self, plan: Plan[T]) -> T:
        with translate(), self.connection_sync() as conn, conn.transaction():
            return driving.drive_sync(conn, self.statements, plan)

    def run_on(self, conn: Conn, plan: Plan[T]) -> T:
        """Carry out a plan on the caller's connection, for use while the database is opened."""
        with conn.transaction():
            return driving.drive_sync(conn, self.statements, plan)

    async def run_on_async(self, conn: AsyncConn, plan: Plan[T]) -> T:
        async with conn.transaction():
            return await driving.drive(conn, self.statements, plan)

    async def fetch(self, query: Query[T], *, is_hurried: bool = True) -> T:
        """Execute one statement over a pooled connection, in its own transaction."""
        async with self.connection(is_hurried=is_hurried) as conn:
            return await driving.fetch(conn, self.statements, query)

    async def fetch_on(self, conn: AsyncConn, query: Query[T]) -> T:
        """Execute one statement on the caller's connection."""
        return await driving.fetch(conn, self.statements, query)

    def fetch_on_sync(self, conn: Conn, query: Query[T]) -> T:
        return driving.fetch_sync(conn, self.statements, query)

    async def connect(
        self, name: str, answer_seconds: float = ANSWER_SECONDS, *, session: bool = False
    ) -> AsyncBoundedConnection:
        """Open a connection outside the pool, on which every answer must arrive within
        `answer_seconds`. `session` bypasses the pooler if `direct_url` is set."""
        url = await self.open()
        direct = self._direct_url if session else None
        try:
            conn = await AsyncSession.connect(direct or url, **own(name))
        except psycopg.OperationalError as error:
            again = await asyncio.to_thread(self._start_again, error, direct or url)
            conn = await AsyncSession.connect(again, **own(name))
        conn.answer_seconds = answer_seconds
        conn.keeps_session = direct is not None or not self._is_pooled
        self.outage.over()
        return conn

    def connect_sync(
        self, name: str, answer_seconds: float = ANSWER_SECONDS, *, session: bool = False
    ) -> BoundedConnection:
        url = self.url
        direct = self._direct_url if session else None
        try:
            conn = Session.connect(direct or url, **own(name))
        except psycopg.OperationalError as error:
            conn = Session.connect(self._start_again(error, direct or url), **own(name))
        conn.answer_seconds = answer_seconds
        conn.keeps_session = direct is not None or not self._is_pooled
        self.outage.over()
        return conn

    def _find_cause(self, error: psycopg.OperationalError, url: str) -> None:
        """Determine the SQLSTATE of a refused connection, at most once per `_ASK_SECONDS`."""
        if error.sqlstate is None:
            may_ask = time.monotonic() >= self._ask_again_at
            error.sqlstate = code_of(error, url if may_ask else None)
            if may_ask and error.sqlstate is None:
                self._ask_again_at = time.monotonic() + _ASK_SECONDS

    def _start_again(self, error: psycopg.OperationalError, url: str) -> str:
        """Start the server again and return its URL; raise the error if that is not possible."""
        self._find_cause(error, url)
        self.outage.note(error)
        with self._opening:
            revived = self._revive()
            if revived is None:
                raise error
            self._url = revived
            return revived

    async def _pool_here(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        if self._pool is None or self._pool_loop is not loop:
            await self.open()
        if self._pool is None or self._pool_loop is not loop:
            if self._pool is not None:
                # A pool belongs to its event loop, and the previous loop has ended.
                self._pool.close()
            self._pool = AsyncPool(lambda: self.connect("rota"))
            self._pool.is_sparing, self._pool_loop = self._is_sparing, loop
        return self._pool

    def _pool_sync(self) -> SyncPool:
        if self._sync_pool is None:
            _ = self.url
            with self._opening:
                if self._sync_pool is None:
                    self._sync_pool = SyncPool(lambda: self.connect_sync("rota"))
        return self._sync_pool

    def point_at(self, url: str | None, direct_url: str | None = None) -> None:
        """Make the next use open and prepare another database. Tests use this to give an
        application their own database; the previous one must not be in use."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self.close_sync()
        with self._opening:
            self._url, self._given_url, self._direct_url = None, url, direct_url
            self._is_pooled, self.outage = False, Outage()

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        with self._opening:
            pool, self._sync_pool = self._sync_pool, None
        if pool is not None:
            pool.close()


class _Borrowed:
    """A connection for the duration of a block, in autocommit mode; the pool rolls back an open
    transaction."""

    __slots__ = ("_conn", "_database", "_is_hurried", "_pool")

    def __init__(self, database: Database, is_hurried: bool) -> None:
        self._database = database
        self._is_hurried = is_hurried

    async def __aenter__(self) -> AsyncConn:
        self._database.used()
        self._pool = await self._database._pool_here()
        self._conn = await self._pool.get(is_hurried=self._is_hurried)
        return self._conn

    async def __aexit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        if is_unwritable(error):
            self._conn.pgconn.finish()  # a new connection may reach the server that took over
        await self._pool.put(self._conn)


class _BorrowedSync:
    __slots__ = ("_conn", "_database", "_pool")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Conn:
        self._database.used()
        self._pool = self._database._pool_sync()
        self._conn = self._pool.get()
        return self._conn

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        if is_unwritable(error):
            self._conn.pgconn.finish()
        self._pool.put(self._conn)
