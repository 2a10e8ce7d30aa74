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

from rota.store.connection import AsyncLink, Link
from rota.store.rows import Adapters

_ADAPTERS = Adapters()

# What Rota's statements rely on. Sent with the start of the session: a SET would cost a round
# trip, and behind a pooler it would stay on a connection that others use next.
SETTINGS = {
    "jit": "off",  # pinned plans look expensive, so each call would be compiled anew
    "default_transaction_isolation": "read committed",  # above it, claims fail beside one another
    "idle_session_timeout": "0",  # leases and listeners are idle by their nature
}

# A server that vanished without a word is noticed within seconds, and not within the minutes, or
# hours, that the kernel would wait. Who says otherwise in the URL knows better.
_NETWORK = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# What poolers say that take no settings at the start: PgBouncer, RDS Proxy.
_REFUSALS = ("startup parameter", "command-line options")


def own(name: str) -> dict[str, Any]:
    """Arguments of `Session.connect` and `AsyncSession.connect`, also for a pool of them."""
    return {
        "autocommit": True,
        "context": _ADAPTERS,
        "application_name": name,
        # Once the driver has prepared something by itself, it deallocates all on a rollback: ours
        # too, which it does not know of.
        "prepare_threshold": None,
        **_NETWORK,
    }


def lent(name: str) -> dict[str, Any]:
    """Arguments of psycopg's `connect` for a session in which users' code runs."""
    return {"autocommit": True, "application_name": name, **_NETWORK}


class Session(Link):
    """A connection of Rota's own. Where a pooler refuses settings it does without: the functions
    of the schema carry their own."""

    @classmethod
    def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        arguments = _without_given(conninfo, arguments)
        try:
            return super().connect(conninfo, **arguments, options=_options(conninfo))
        except psycopg.OperationalError as error:
            if not _is_refusal(error):
                raise
        return super().connect(conninfo, **arguments)


class AsyncSession(AsyncLink):
    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        arguments = _without_given(conninfo, arguments)
        try:
            return await super().connect(conninfo, **arguments, options=_options(conninfo))
        except psycopg.OperationalError as error:
            if not _is_refusal(error):
                raise
        return await super().connect(conninfo, **arguments)


def _without_given(conninfo: str, arguments: dict[str, Any]) -> dict[str, Any]:
    given = conninfo_to_dict(conninfo).keys() & _NETWORK.keys()
    return {key: value for key, value in arguments.items() if key not in given}


def _options(conninfo: str) -> str:
    """The user's own, then ours: the last one counts."""
    given = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    ours = ("-c " + f"{name}={value}".replace(" ", "\\ ") for name, value in SETTINGS.items())
    return " ".join([str(given), *ours]).strip()


def _is_refusal(error: psycopg.OperationalError) -> bool:
    return any(words in str(error) for words in _REFUSALS)
