"""What users have, for ctx.transaction(…): one of each kind, and how each writes a row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session
from sqlalchemy.orm import sessionmaker as sync_sessionmaker

OpenAsync = Callable[[str], AbstractAsyncContextManager[Any]]
Open = Callable[[str], AbstractContextManager[Any]]


class Base(DeclarativeBase):
    pass


class Effect(Base):
    __tablename__ = "effects"

    n: Mapped[int] = mapped_column(primary_key=True)


def _alchemy(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


# Async.


@asynccontextmanager
async def psycopg_pool_async(url: str) -> AsyncIterator[Any]:
    async with psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=2, open=False) as pool:
        yield pool


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:
        yield pool


@asynccontextmanager
async def alchemy_engine_async(url: str, driver: str = "psycopg") -> AsyncIterator[Any]:
    engine = create_async_engine(_alchemy(url, driver))
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def alchemy_engine_asyncpg(url: str) -> AsyncIterator[Any]:
    async with alchemy_engine_async(url, "asyncpg") as engine:
        yield engine


@asynccontextmanager
async def alchemy_session_async(url: str) -> AsyncIterator[Any]:
    async with alchemy_engine_async(url) as engine, AsyncSession(engine) as session:
        yield session


@asynccontextmanager
async def alchemy_factory_async(url: str) -> AsyncIterator[Any]:
    async with alchemy_engine_asyncpg(url) as engine:
        yield async_sessionmaker(engine)


@asynccontextmanager
async def alchemy_scoped_async(url: str) -> AsyncIterator[Any]:
    async with alchemy_engine_async(url) as engine:
        session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
        yield session
        await session.remove()


# Sync.


@contextmanager
def psycopg_pool_sync(url: str) -> Iterator[Any]:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=2, open=False) as pool:
        yield pool


@contextmanager
def alchemy_engine(url: str) -> Iterator[Any]:
    engine = sa.create_engine(_alchemy(url, "psycopg"))
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def alchemy_session(url: str) -> Iterator[Any]:
    with alchemy_engine(url) as engine, Session(engine) as session:
        yield session


@contextmanager
def alchemy_factory(url: str) -> Iterator[Any]:
    with alchemy_engine(url) as engine:
        yield sync_sessionmaker(engine)


@contextmanager
def alchemy_scoped(url: str) -> Iterator[Any]:
    with alchemy_engine(url) as engine:
        session = scoped_session(sync_sessionmaker(engine), scopefunc=lambda: 1)
        yield session
        session.remove()


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    """Each thread has a connection of its own behind it."""
    import django
    from django.conf import settings
    from django.db import connection, connections

    info = psycopg.conninfo.conninfo_to_dict(url)
    parts = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host"}
    database = {name: info[part] for name, part in parts.items()} | {"PORT": info["port"]}
    if not settings.configured:
        settings.configure(DATABASES={})
        django.setup()
    connections.settings = connections.configure_settings(
        {"default": {"ENGINE": "django.db.backends.postgresql", **database}}
    )
    yield connection


ASYNC: list[OpenAsync] = [
    psycopg_pool_async,
    asyncpg_pool,
    alchemy_engine_async,
    alchemy_engine_asyncpg,
    alchemy_session_async,
    alchemy_factory_async,
    alchemy_scoped_async,
]
SYNC: list[Open] = [
    psycopg_pool_sync,
    alchemy_engine,
    alchemy_session,
    alchemy_factory,
    alchemy_scoped,
    django_connection,
]


async def write_async(given: Any, n: int) -> None:
    """As users of that kind write."""
    if isinstance(given, AsyncSession):
        given.add(Effect(n=n))
    else:
        await execute_async(given, f"INSERT INTO effects VALUES ({n})")


async def execute_async(given: Any, sql: str) -> None:
    is_alchemy = type(given).__module__.startswith("sqlalchemy")
    executed: Awaitable[Any] = given.execute(sa.text(sql) if is_alchemy else sql)
    await executed


def write(given: Any, n: int) -> None:
    if isinstance(given, Session):
        given.add(Effect(n=n))
    else:
        execute(given, f"INSERT INTO effects VALUES ({n})")


def execute(given: Any, sql: str) -> None:
    if type(given).__module__.startswith("django"):
        with given.cursor() as cursor:
            cursor.execute(sql)
    else:
        is_alchemy = type(given).__module__.startswith("sqlalchemy")
        given.execute(sa.text(sql) if is_alchemy else sql)
