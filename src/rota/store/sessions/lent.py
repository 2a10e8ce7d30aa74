"""Connections that handlers get, and what is below them.

A connection of the driver is an object round a handle of libpq. Every handler gets an object of its
own; the handle under it is kept for the next one. So nothing that a handler does to its object (row
factories, adapters, callbacks) outlives it, and an object that somebody holds on to is closed.
"""

from __future__ import annotations

from typing import Any, NoReturn

import psycopg
from psycopg.pq import PGconn
from psycopg.pq import abc as pq

from rota.errors import JobError

__all__ = ["AsyncLentConnection", "LentConnection", "detach"]

_ENDED = PGconn.connect_start(b"port=none")  # refused before any network: the handle of nothing
_ENDED.finish()


def detach(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> pq.PGconn:
    """Take the handle away: for whoever still has the object, it is closed."""
    handle, conn.pgconn = conn.pgconn, _ENDED
    return handle


class AsyncLentConnection(psycopg.AsyncConnection[Any]):
    """Inside a transaction that is not the handler's to end."""

    async def commit(self) -> None:
        _refuse("commit")

    async def rollback(self) -> None:
        _refuse("rollback")


class LentConnection(psycopg.Connection[Any]):
    def commit(self) -> None:
        _refuse("commit")

    def rollback(self) -> None:
        _refuse("rollback")


def _refuse(verb: str) -> NoReturn:
    raise JobError(
        f"a handler cannot call {verb}(): its transaction ends with its attempt",
        hint="return to commit, raise to roll back; for a part of it use conn.transaction()",
    )
