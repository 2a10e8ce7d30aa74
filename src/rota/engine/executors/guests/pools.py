"""Pools of psycopg and asyncpg."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg

from rota.engine.executors.ending import Rows
from rota.engine.executors.guests.base import AsyncGuest, Guest, Terms
from rota.postgres.sessions.drivers import fetch_asyncpg, fetch_psycopg, fetch_psycopg_sync


class AsyncPsycopgPool(AsyncGuest):
    """While the outer block is open, the driver refuses `commit()` and `rollback()`."""

    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._conn: Any = None
        self._outer: Any = None

    async def open(self) -> None:
        self._conn = await self.source.getconn()
        outer = self._conn.transaction()
        await outer.__aenter__()
        self._outer = outer

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Any]:
        async with self._conn.transaction():
            yield self._conn

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        return await fetch_psycopg(self._conn, sql, parameters)

    async def commit(self) -> None:
        outer, self._outer = self._outer, None
        await outer.__aexit__(None, None, None)

    async def close(self) -> None:
        conn, self._conn = self._conn, None
        outer, self._outer = self._outer, None
        if outer is not None:
            undo = psycopg.Rollback(outer)
            with suppress(psycopg.Error):
                await outer.__aexit__(psycopg.Rollback, undo, None)
        if conn is not None:
            await self.source.putconn(conn)


class PsycopgPool(Guest):
    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._conn: Any = None
        self._outer: Any = None

    def open(self) -> None:
        self._conn = self.driver = self.source.getconn()
        outer = self._conn.transaction()
        outer.__enter__()
        self._outer = outer

    @contextmanager
    def block(self) -> Iterator[Any]:
        with self._conn.transaction():
            yield self._conn

    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        return fetch_psycopg_sync(self._conn, sql, parameters)

    def commit(self) -> None:
        outer, self._outer = self._outer, None
        outer.__exit__(None, None, None)

    def close(self) -> None:
        self.driver = None
        conn, self._conn = self._conn, None
        outer, self._outer = self._outer, None
        if outer is not None:
            with suppress(psycopg.Error):
                outer.__exit__(psycopg.Rollback, psycopg.Rollback(outer), None)
        if conn is not None:
            self.source.putconn(conn)


class AsyncpgPool(AsyncGuest):
    def __init__(self, source: Any, terms: Terms) -> None:
        super().__init__(source, terms)
        self._conn: Any = None
        self._outer: Any = None

    async def open(self) -> None:
        self._conn = await self.source.acquire()
        outer = self._conn.transaction()
        await outer.start()
        self._outer = outer

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Any]:
        async with self._conn.transaction():
            yield self._conn

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows:
        return await fetch_asyncpg(self._conn, sql, parameters)

    async def commit(self) -> None:
        outer, self._outer = self._outer, None
        await outer.commit()

    async def close(self) -> None:
        conn, self._conn = self._conn, None
        outer, self._outer = self._outer, None
        if conn is None:
            return
        try:
            if outer is not None and conn.is_in_transaction():
                await outer.rollback()
        finally:
            await self.source.release(conn)
