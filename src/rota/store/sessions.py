"""How a session with the server is opened: the one place that knows its parameters.

Rota's own sessions carry the settings that its statements rely on, whatever the server, the
database or the role says. Sessions that are lent to users' code do not: it finds the server as
it is configured (docs/decisions/0017-sessions.md).
"""

from __future__ import annotations

import os
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rota.store.rows import Adapters

_ADAPTERS = Adapters()

# What Rota's statements rely on. Sent with the start of the session: a SET would cost a round
# trip, and behind a pooler it would stay on a connection that others use next.
SETTINGS = {
    "jit": "off",  # pinned plans look expensive, so each call would be compiled anew
}

# tcp_user_timeout: a server that vanished without a word must not hold a heartbeat for the
# minutes that the kernel would wait.
_NETWORK = {"connect_timeout": 10, "tcp_user_timeout": 10_000}

# What poolers say that take no settings at the start: PgBouncer, RDS Proxy.
_REFUSALS = ("startup parameter", "command-line options")


def own(name: str) -> dict[str, Any]:
    """Arguments of `Session.connect` and `AsyncSession.connect`, also for a pool of them."""
    return {"autocommit": True, "context": _ADAPTERS, "application_name": name, **_NETWORK}


def lent(name: str) -> dict[str, Any]:
    """Arguments of psycopg's `connect` for a session in which users' code runs."""
    return {"autocommit": True, "application_name": name, **_NETWORK}


class Session(psycopg.Connection[Any]):
    """A connection of Rota's own. Where a pooler refuses settings it does without: the functions
    of the schema carry their own."""

    @classmethod
    def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        try:
            return super().connect(conninfo, **arguments, options=_options(conninfo))
        except psycopg.OperationalError as error:
            if not _is_refusal(error):
                raise
        return super().connect(conninfo, **arguments)


class AsyncSession(psycopg.AsyncConnection[Any]):
    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        try:
            return await super().connect(conninfo, **arguments, options=_options(conninfo))
        except psycopg.OperationalError as error:
            if not _is_refusal(error):
                raise
        return await super().connect(conninfo, **arguments)


def _options(conninfo: str) -> str:
    """The user's own, then ours: the last one counts."""
    given = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    return " ".join([str(given), *(f"-c {name}={it}" for name, it in SETTINGS.items())]).strip()


def _is_refusal(error: psycopg.OperationalError) -> bool:
    return any(words in str(error) for words in _REFUSALS)
