"""SQLAlchemy: engines, and sessions or factories of them.

A session joins a transaction that is held outside of it: its own `commit()`, `rollback()` and
`close()` affect only a savepoint, wherever the handler calls them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NoReturn

from rota.engine.executors.ending import Rows
from rota.engine.executors.guests.base import AsyncGuest, Guest, Terms
from rota.errors import JobError
from rota.postgres.sessions.drivers import family, fetch_sqlalchemy, fetch_sqlalchemy_sync

_MADE = {"sessionmaker", "async_sessionmaker", "scoped_session", "async_scoped_session"}


class AsyncAlchemyEngine(AsyncGuest):
    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._conn: Any = None

    async def open(self) -> None:
        self._conn = await self.source.connect()
        await self._conn.begin()
        _guard(self._conn.sync_connection)

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Any]:
        async with self._conn.begin_nested():
            yield self._conn

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        return await fetch_sqlalchemy(self._conn, sql, parameters)

    async def commit(self) -> None:
        _unguard(self._conn.sync_connection)
        await self._conn.commit()

    async def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()


class AlchemyEngine(Guest):
    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._conn: Any = None

    def open(self) -> None:
        self._conn = self.source.connect()
        self.driver = self._conn.connection.driver_connection
        self._conn.begin()
        _guard(self._conn)

    @contextmanager
    def block(self) -> Iterator[Any]:
        with self._conn.begin_nested():
            yield self._conn

    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        return fetch_sqlalchemy_sync(self._conn, sql, parameters)

    def commit(self) -> None:
        _unguard(self._conn)
        self._conn.commit()

    def close(self) -> None:
        self.driver = None
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


class AsyncAlchemySession(AsyncAlchemyEngine):
    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._session: Any = None
        self._joined: Joined | None = None

    async def open(self) -> None:
        session = _session_of(self.source)
        engine = _engine_of(session.sync_session)
        self.source = sys.modules["sqlalchemy.ext.asyncio"].AsyncEngine(engine)
        await super().open()
        self._session = session
        self._joined = Joined(session.sync_session, engine, self._conn.sync_connection)

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Any]:
        await self.flush()
        try:
            yield self._session
        except BaseException:
            await self._session.rollback()
            raise
        await self._session.commit()

    async def flush(self) -> None:
        await self._session.commit()

    async def close(self) -> None:
        session, self._session = self._session, None
        joined, self._joined = self._joined, None
        try:
            if session is not None:
                await session.close()
        finally:
            if joined is not None:
                joined.leave()
            await super().close()


class AlchemySession(AlchemyEngine):
    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._session: Any = None
        self._joined: Joined | None = None

    def open(self) -> None:
        session = _session_of(self.source)
        self.source = engine = _engine_of(session)
        super().open()
        self._session = session
        self._joined = Joined(session, engine, self._conn)

    @contextmanager
    def block(self) -> Iterator[Any]:
        self.flush()
        try:
            yield self._session
        except BaseException:
            self._session.rollback()
            raise
        self._session.commit()

    def flush(self) -> None:
        self._session.commit()

    def close(self) -> None:
        session, self._session = self._session, None
        joined, self._joined = self._joined, None
        try:
            if session is not None:
                session.close()
        finally:
            if joined is not None:
                joined.leave()
            super().close()


class Joined:
    """Sends every statement of a session to one connection, until `leave`."""

    def __init__(self, session: Any, engine: Any, connection: Any) -> None:
        self._session = session
        self._mode = session.join_transaction_mode
        self._is_expiring = session.expire_on_commit
        ask = session.get_bind

        def get_bind(*arguments: Any, **options: Any) -> Any:
            if ask(*arguments, **options) is not engine:
                raise JobError("this session uses a second database, which cannot commit with it")
            return connection

        session.get_bind = get_bind
        session.join_transaction_mode = "create_savepoint"
        # Objects loaded in a block stay loaded after it.
        session.expire_on_commit = False

    def leave(self) -> None:
        session = self._session
        del session.get_bind
        session.join_transaction_mode = self._mode
        session.expire_on_commit = self._is_expiring


def _session_of(source: Any) -> Any:
    session = source() if any(name in _MADE for _, name in family(source)) else source
    if session.in_transaction():
        raise JobError(
            "this session is already in a transaction, which would commit without the completion",
            hint="enter ctx.transaction() before the session's first statement, or pass its "
            "sessionmaker",
        )
    return session


def _engine_of(session: Any) -> Any:
    bind = session.get_bind()
    if ("sqlalchemy", "Engine") not in family(bind):
        raise JobError("this session is bound to a connection: pass one that is bound to an engine")
    return bind


def _guard(connection: Any) -> None:
    sys.modules["sqlalchemy"].event.listen(connection, "commit", _refuse)


def _unguard(connection: Any) -> None:
    sys.modules["sqlalchemy"].event.remove(connection, "commit", _refuse)


def _refuse(_: Any) -> NoReturn:
    raise JobError(
        "a handler cannot call commit(): its transaction ends with its attempt",
        hint="return to commit, raise to roll back",
    )
