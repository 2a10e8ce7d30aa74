"""Connections for handlers, and the libpq handles below them.

A connection of the driver is an object around a libpq handle. Every handler gets its own object;
the handle is kept for the next handler. So changes to the object (row factories, adapters,
callbacks) do not outlive the handler, and a reference that is kept afterwards is a closed
connection.
"""

from __future__ import annotations

from typing import Any, NoReturn

import psycopg
from psycopg.pq import PGconn
from psycopg.pq import abc as pq

from rota.errors import JobError

__all__ = ["AsyncBorrowedConnection", "BorrowedConnection", "detach"]

# refused before any network access: a handle of no connection
_ENDED = PGconn.connect_start(b"port=none")
_ENDED.finish()


def detach(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> pq.PGconn:
    """Detach the handle; any remaining reference to the object is a closed connection."""
    handle, conn.pgconn = conn.pgconn, _ENDED
    return handle


class AsyncBorrowedConnection(psycopg.AsyncConnection[Any]):
    """A connection in a transaction that the handler must not end."""

    async def commit(self) -> None:
        _refuse("commit")

    async def rollback(self) -> None:
        _refuse("rollback")


class BorrowedConnection(psycopg.Connection[Any]):
    def commit(self) -> None:
        _refuse("commit")

    def rollback(self) -> None:
        _refuse("rollback")


def _refuse(verb: str) -> NoReturn:
    raise JobError(
        f"a handler cannot call {verb}(): its transaction ends with its attempt",
        hint="return to commit, raise to roll back; for a part of it use conn.transaction()",
    )
