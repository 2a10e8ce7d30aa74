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

from rota.store.connection import ANSWER_SECONDS, AsyncConn, Conn
from rota.store.errors import translate
from rota.store.lending import AsyncPool, SyncPool
from rota.store.outage import Outage
from rota.store.plans import Plan
from rota.store.rows import NOT_READ, Row, named_row, read_again
from rota.store.sessions import AsyncSession, Session, own
from rota.store.statements import Statements

__all__ = ["AsyncConn", "Conn", "Database"]

T = TypeVar("T")


class Database:
    """Pools for async and sync callers, and connections of one's own for the runtime.

    `prepare` answers the URL; it may start a server and migrate it. `on_open` gets a connection
    once, before anybody else does. Both are called once in the life of this object. `revive` is
    called when nobody answers: it may start the server again and answer its URL.
    """

    def __init__(
        self,
        *,
        schema: str,
        prepare: Callable[[], str],
        on_open: Callable[[Conn], None],
        revive: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.statements = Statements(schema)
        self.schema = schema
        self._prepare = prepare
        self._on_open = on_open
        self._revive = revive
        self.outage = Outage()
        self._url: str | None = None
        self._opening = threading.Lock()
        self._pool: AsyncPool | None = None
        self._pool_loop: asyncio.AbstractEventLoop | None = None
        self._sync_pool: SyncPool | None = None

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
                ask = plan.send(await _rows(cursor) if cursor.description else [])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _drive_sync(self, conn: Conn, plan: Plan[T]) -> T:
        try:
            ask = next(plan)
            while True:
                cursor = conn.cursor(row_factory=named_row)
                sql = self.statements.get(ask.statement)
                cursor.execute(sql, ask.params, binary=ask.is_large)
                ask = plan.send(_rows_sync(cursor) if cursor.description else [])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def connect(self, name: str, answer_seconds: float = ANSWER_SECONDS) -> AsyncConn:
        """A connection of one's own, outside the pool, on which no answer takes longer."""
        url = await self.open()
        try:
            conn = await AsyncSession.connect(url, **own(name))
        except psycopg.OperationalError as error:
            again = await asyncio.to_thread(self._start_again, error)
            conn = await AsyncSession.connect(again, **own(name))
        conn.answer_seconds = answer_seconds
        self.outage.over()
        return conn

    def connect_sync(self, name: str, answer_seconds: float = ANSWER_SECONDS) -> Conn:
        url = self.url
        try:
            conn = Session.connect(url, **own(name))
        except psycopg.OperationalError as error:
            conn = Session.connect(self._start_again(error), **own(name))
        conn.answer_seconds = answer_seconds
        self.outage.over()
        return conn

    def _start_again(self, error: psycopg.OperationalError) -> str:
        """The URL of a server that has been started again; the same error where there is none."""
        self.outage.note(error)
        with self._opening:
            url = self._revive()
            if url is None:
                raise error
            self._url = url
            return url

    async def _pool_here(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        if self._pool is None or self._pool_loop is not loop:
            await self.open()
        if self._pool is None or self._pool_loop is not loop:
            if self._pool is not None:
                # A pool belongs to its event loop; the one before has ended.
                self._pool.close()
            self._pool, self._pool_loop = AsyncPool(lambda: self.connect("rota")), loop
        return self._pool

    def _pool_sync(self) -> SyncPool:
        if self._sync_pool is None:
            _ = self.url
            with self._opening:
                if self._sync_pool is None:
                    self._sync_pool = SyncPool(lambda: self.connect_sync("rota"))
        return self._sync_pool

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


class _Lent:
    """A connection for the length of a block. It is in autocommit mode; the pool rolls back what
    is left."""

    __slots__ = ("_conn", "_database", "_pool")

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> AsyncConn:
        self._pool = await self._database._pool_here()
        self._conn = await self._pool.get()
        return self._conn

    async def __aexit__(self, *_: object) -> None:
        await self._pool.put(self._conn)


class _LentSync:
    __slots__ = ("_conn", "_database", "_pool")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Conn:
        self._pool = self._database._pool_sync()
        self._conn = self._pool.get()
        return self._conn

    def __exit__(self, *_: object) -> None:
        self._pool.put(self._conn)


async def _rows(cursor: psycopg.AsyncCursor[Row]) -> list[Row]:
    try:
        return await cursor.fetchall()
    except NOT_READ:
        return read_again(cursor, named_row(cursor))


def _rows_sync(cursor: psycopg.Cursor[Row]) -> list[Row]:
    try:
        return cursor.fetchall()
    except NOT_READ:
        return read_again(cursor, named_row(cursor))


async def _beside(executing: Coroutine[Any, Any, object], work: Callable[[], object]) -> None:
    """Work on something while the server works on a statement."""
    task = asyncio.ensure_future(executing)
    await asyncio.sleep(0)  # it is sent now
    try:
        work()
    finally:
        await task
