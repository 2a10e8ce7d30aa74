"""Transactions of callers, one opener for each driver and ORM that enqueue may join."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import asyncpg
import psycopg
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

Open = Callable[[str], AbstractContextManager[Any]]
AsyncOpen = Callable[[str], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as conn:
        yield conn


@asynccontextmanager
async def psycopg_async_cursor(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as conn, conn.cursor() as cursor:
        yield cursor


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async def with_codec(conn: Any) -> None:
        # What many applications do: jsonb as Python objects.
        await conn.set_type_codec(
            "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
        )

    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1, init=with_codec) as pool,
        pool.acquire() as conn,
        conn.transaction(),
    ):
        yield conn


def _alchemy(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def alchemy_asyncpg(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_alchemy(url, "asyncpg"))
    try:
        async with engine.begin() as conn:
            yield conn
    finally:
        await engine.dispose()


@asynccontextmanager
async def alchemy_async_session(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_alchemy(url, "psycopg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@contextmanager
def psycopg_sync(url: str) -> Iterator[Any]:
    with psycopg.connect(url, row_factory=dict_row) as conn:
        yield conn


@contextmanager
def psycopg_cursor(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as conn, conn.cursor() as cursor:
        yield cursor


@contextmanager
def alchemy_connection(url: str) -> Iterator[Any]:
    engine = sa.create_engine(_alchemy(url, "psycopg"))
    try:
        with engine.begin() as conn:
            yield conn
    finally:
        engine.dispose()


@contextmanager
def alchemy_session(url: str) -> Iterator[Any]:
    engine = sa.create_engine(_alchemy(url, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def alchemy_scoped_session(url: str) -> Iterator[Any]:
    engine = sa.create_engine(_alchemy(url, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    try:
        with session.begin():
            yield session
    finally:
        session.remove()
        engine.dispose()


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    import django
    from django.conf import settings
    from django.db import connection, connections, transaction

    info = psycopg.conninfo.conninfo_to_dict(url)
    parts = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
    database = {name: info[part] for name, part in parts.items()} | {"PORT": info["port"]}
    if not settings.configured:
        settings.configure(DATABASES={})
        django.setup()
    connections.settings = connections.configure_settings(
        {"default": {"ENGINE": "django.db.backends.postgresql", **database}}
    )
    try:
        with transaction.atomic():
            yield connection
    finally:
        connection.close()
        del connections["default"]


ASYNC: list[AsyncOpen] = [
    psycopg_async,
    psycopg_async_cursor,
    asyncpg_connection,
    asyncpg_pool,
    alchemy_asyncpg,
    alchemy_async_session,
]
SYNC: list[Open] = [
    psycopg_sync,
    psycopg_cursor,
    alchemy_connection,
    alchemy_session,
    alchemy_scoped_session,
    django_connection,
]
