"""The database as the rest of Rota sees it: one object, opened on first use.

Nothing here starts before somebody asks for a connection: importing an application, making an
`App` and declaring jobs touch no server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from rota.store.errors import translate
from rota.store.plans import Plan
from rota.store.rows import named_row
from rota.store.sessions import AsyncSession, Session, own
from rota.store.statements import Statements

AsyncConn = psycopg.AsyncConnection[Any]
Conn = psycopg.Connection[Any]

T = TypeVar("T")

_POOL_SIZE = 10


class Database:
    """Pools for async and sync callers, and connections of one's own for the runtime.

    `prepare` answers the URL; it may start a server and migrate it. `on_open` gets a connection
    once, before anybody else does. Both are called once in the life of this object.
    """

    def __init__(
        self, *, schema: str, prepare: Callable[[], str], on_open: Callable[[Conn], None]
    ) -> None:
        self.statements = Statements(schema)
        self.schema = schema
        self._prepare = prepare
        self._on_open = on_open
        self._url: str | None = None
        self._opening = threading.Lock()
        self._pool: AsyncConnectionPool[AsyncConn] | None = None
        self._pool_loop: asyncio.AbstractEventLoop | None = None
        self._pool_opening: asyncio.Lock | None = None
        self._sync_pool: ConnectionPool[Conn] | None = None

    @property
    def is_open(self) -> bool:
        return self._url is not None

    @property
    def url(self) -> str:
        """Where the database is; opens it where that has not happened yet."""
        return self.open_sync()

    async def open(self) -> str:
        if self._url is not None:
            return self._url
        return await asyncio.to_thread(self.open_sync)

    def open_sync(self) -> str:
        with self._opening:
            if self._url is None:
                with translate():
                    url = self._prepare()
                    with Session.connect(url, **own("rota")) as conn:
                        self._on_open(conn)
                self._url = url
            return self._url

    def connection(self) -> _Lent:
        """A pooled connection in autocommit mode."""
        return _Lent(self)

    def connection_sync(self) -> _LentSync:
        return _LentSync(self)

    async def run(self, plan: Plan[T]) -> T:
        """Carry out a plan in one transaction."""
        with translate():
            async with self.connection() as conn, conn.transaction():
                return await self._drive(conn, plan)

    def run_sync(self, plan: Plan[T]) -> T:
        with translate(), self.connection_sync() as conn, conn.transaction():
            return self._drive_sync(conn, plan)

    def run_on(self, conn: Conn, plan: Plan[T]) -> T:
        """The same on a connection that the caller has, for use while the database is opened."""
        with conn.transaction():
            return self._drive_sync(conn, plan)

    async def _drive(self, conn: AsyncConn, plan: Plan[T]) -> T:
        try:
            ask = next(plan)
            while True:
                cursor = conn.cursor(row_factory=named_row)
                sql = self.statements.get(ask.statement)
                executing = cursor.execute(sql, ask.params, binary=ask.is_large)
                await (_beside(executing, ask.meanwhile) if ask.meanwhile else executing)
                ask = plan.send(await cursor.fetchall() if cursor.description else [])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _drive_sync(self, conn: Conn, plan: Plan[T]) -> T:
        try:
            ask = next(plan)
            while True:
                cursor = conn.cursor(row_factory=named_row)
                sql = self.statements.get(ask.statement)
                cursor.execute(sql, ask.params, binary=ask.is_large)
                ask = plan.send(cursor.fetchall() if cursor.description else [])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def connect(self, name: str) -> AsyncConn:
        """A connection of one's own, outside the pool."""
        return await AsyncSession.connect(await self.open(), **own(name))

    def connect_sync(self, name: str) -> Conn:
        return Session.connect(self.url, **own(name))

    async def async_pool(self) -> AsyncConnectionPool[AsyncConn]:
        loop = asyncio.get_running_loop()
        if self._pool is not None and self._pool_loop is loop:
            return self._pool
        url = await self.open()
        if self._pool_loop is not loop:
            # A pool belongs to its event loop; the one before has ended, or is another thread's.
            self._pool, self._pool_loop, self._pool_opening = None, loop, asyncio.Lock()
        assert self._pool_opening is not None
        async with self._pool_opening:
            if self._pool is None:
                pool: AsyncConnectionPool[AsyncConn] = AsyncConnectionPool(
                    url,
                    connection_class=AsyncSession,
                    min_size=1,
                    max_size=_POOL_SIZE,
                    kwargs=own("rota"),
                    open=False,
                )
                await pool.open()
                self._pool = pool
        return self._pool

    def sync_pool(self) -> ConnectionPool[Conn]:
        if self._sync_pool is not None:
            return self._sync_pool
        url = self.url
        with self._opening:
            if self._sync_pool is None:
                self._sync_pool = ConnectionPool(
                    url,
                    connection_class=Session,
                    min_size=1,
                    max_size=_POOL_SIZE,
                    kwargs=own("rota"),
                    open=True,
                )
            return self._sync_pool

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._pool_loop is asyncio.get_running_loop():
            await pool.close()
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        with self._opening:
            pool, self._sync_pool = self._sync_pool, None
        if pool is not None:
            pool.close()


class _Lent:
    """A connection for the length of a block. The pool's own block also ends the transaction, a
    second turn of the event loop; ours are in autocommit, and the pool rolls back what is left."""

    __slots__ = ("_conn", "_database", "_pool")

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> AsyncConn:
        self._pool = await self._database.async_pool()
        self._conn = await self._pool.getconn()
        return self._conn

    async def __aexit__(self, *_: object) -> None:
        await self._pool.putconn(self._conn)


class _LentSync:
    __slots__ = ("_conn", "_database", "_pool")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Conn:
        self._pool = self._database.sync_pool()
        self._conn = self._pool.getconn()
        return self._conn

    def __exit__(self, *_: object) -> None:
        self._pool.putconn(self._conn)


async def _beside(executing: Coroutine[Any, Any, object], work: Callable[[], object]) -> None:
    """Work on something while the server works on a statement."""
    task = asyncio.ensure_future(executing)
    await asyncio.sleep(0)  # it is sent now
    try:
        work()
    finally:
        await task
