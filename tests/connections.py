"""Connections that a test leaves open: Python warns of one when it collects it, in another test."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from psycopg import BaseConnection

_alive: WeakSet[BaseConnection[Any]] = WeakSet()
_begin = BaseConnection.__init__


def _noted(self: BaseConnection[Any], *arguments: Any) -> None:
    _begin(self, *arguments)
    _alive.add(self)


BaseConnection.__init__ = _noted  # type: ignore[method-assign]


def close_all(database: str) -> None:
    """Fails if this process still has a connection to a database that nobody uses any more."""
    left = [it for it in list(_alive) if not it.closed and it.info.dbname == database]
    for one in left:
        one.pgconn.finish()
    assert not left, f"left open; close the application or the connection: {left}"
