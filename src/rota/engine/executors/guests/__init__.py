"""The sources that `ctx.transaction(…)` accepts: pools, engines, sessions and connections of users.

Nothing here imports a driver or an ORM, because the user's code has imported it: a source's class
is recognised by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rota.engine.executors.guests import alchemy, pools
from rota.engine.executors.guests.base import Terms
from rota.engine.executors.guests.django import DjangoConnection
from rota.engine.executors.transaction_drivers import AsyncTransactionDriver, TransactionDriver
from rota.errors import JobError
from rota.postgres.sessions.drivers import family

T = TypeVar("T")
_Name = tuple[str, str]

_ASYNC: dict[_Name, Callable[[Any, Terms], AsyncTransactionDriver]] = {
    ("psycopg_pool", "AsyncConnectionPool"): pools.AsyncPsycopgPool,
    ("asyncpg", "Pool"): pools.AsyncpgPool,
    ("sqlalchemy", "AsyncEngine"): alchemy.AsyncAlchemyEngine,
    ("sqlalchemy", "AsyncSession"): alchemy.AsyncAlchemySession,
    ("sqlalchemy", "async_sessionmaker"): alchemy.AsyncAlchemySession,
    ("sqlalchemy", "async_scoped_session"): alchemy.AsyncAlchemySession,
}
_SYNC: dict[_Name, Callable[[Any, Terms], TransactionDriver]] = {
    ("psycopg_pool", "ConnectionPool"): pools.PsycopgPool,
    ("sqlalchemy", "Engine"): alchemy.AlchemyEngine,
    ("sqlalchemy", "Session"): alchemy.AlchemySession,
    ("sqlalchemy", "sessionmaker"): alchemy.AlchemySession,
    ("sqlalchemy", "scoped_session"): alchemy.AlchemySession,
    ("django", "ConnectionProxy"): DjangoConnection,
    ("django", "BaseDatabaseWrapper"): DjangoConnection,
}


def make_async_way(source: Any, terms: Terms) -> AsyncTransactionDriver:
    return _find(source, _ASYNC, _SYNC, "is sync: use ctx.transaction_sync() in a `def` handler")(
        source, terms
    )


def make_way(source: Any, terms: Terms) -> TransactionDriver:
    return _find(
        source, _SYNC, _ASYNC, "is async: use ctx.transaction() in an `async def` handler"
    )(source, terms)


def _find(source: Any, known: Mapping[_Name, T], others: Mapping[_Name, Any], word: str) -> T:
    for name in family(source):
        if name in known:
            return known[name]
        if name in others:
            raise JobError(f"{name[0]}'s {name[1]} {word}")
    kind = type(source)
    raise JobError(
        f"ctx.transaction() does not take a {kind.__module__}.{kind.__qualname__}",
        hint="it takes a pool of psycopg or asyncpg, an engine, session or sessionmaker of "
        "SQLAlchemy, or Django's connection; not a bare connection, which would have to stay open "
        "until the handler has returned",
    )
