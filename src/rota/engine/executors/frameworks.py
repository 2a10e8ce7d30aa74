"""Does at the edges of an attempt what a framework does at the edges of a request.

Currently for Django, in every process in which it is configured. Nothing is imported for it.

* In a thread or a child process: `reset_queries` and `close_old_connections` before the handler,
  `close_old_connections` and `close_caches` after it. So a connection that the server has closed is
  replaced, and none outlives `CONN_MAX_AGE`.
* In a coroutine: calls by `sync_to_async`, including Django's async ORM, get a thread for the
  attempt, as under ASGI for a request, and the connections of that thread are closed with it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

from rota.model.hook import Hook

_modules = sys.modules
# Loaded if Django's connections may be in use.
DJANGO = "django.db"


def inside_frameworks(hooks: tuple[Hook, ...], *, is_async: bool) -> tuple[Hook, ...]:
    """Return the hooks of an application, inside those of the frameworks that this process uses."""
    if DJANGO in _modules and _is_configured():
        return (_COROUTINE if is_async else _FUNCTION, *hooks)
    return hooks


def thread_ends() -> None:
    """Close the connections of this thread, which executes no more handlers."""
    if DJANGO in _modules and _is_configured():
        _modules[DJANGO].connections.close_all()


def _is_configured() -> bool:
    return bool(_modules["django.conf"].settings.configured)


def _round_function(_context: Any) -> Iterator[None]:
    db, cache = _modules[DJANGO], _modules.get("django.core.cache")
    db.reset_queries()
    _close_old(db)
    try:
        yield
    finally:
        _close_old(db)
        if cache is not None:
            cache.close_caches()


def _close_old(db: Any) -> None:
    """Close old connections as Django does, except one whose transaction the completion joins."""
    for connection in db.connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


async def _round_coroutine(_context: Any) -> AsyncIterator[None]:
    asgiref = _modules["asgiref.sync"]
    async with asgiref.ThreadSensitiveContext() as threads:
        try:
            yield
        finally:
            if threads in asgiref.SyncToAsync.context_to_thread_executor:
                await asgiref.sync_to_async(thread_ends)()


_FUNCTION = Hook(_round_function, False, "rota, for Django")
_COROUTINE = Hook(_round_coroutine, True, "rota, for Django")
