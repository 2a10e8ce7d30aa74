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
from rota.store.sessions.connection import AsyncLink, Link

_ADAPTERS = Adapters()

# What Rota's statements rely on. Sent with the start of the session: a SET would cost a round
# trip, and behind a pooler it would stay on a connection that others use next.
SETTINGS = {
    "jit": "off",  # pinned plans look expensive, so each call would be compiled anew
    "default_transaction_isolation": "read committed",  # above it, claims fail beside one another
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",  # leases and listeners are idle by their nature
    "idle_in_transaction_session_timeout": "0",
    # Every wait has a bound of its own, which knows what it waits for.
    "statement_timeout": "0",
    "lock_timeout": "0",
    # How values look as text, and text as values: the driver and the schema's functions read them.
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "array_nulls": "on",
    # Names of ours are written with their schema; nobody else's shall come before the server's.
    "search_path": "pg_catalog, pg_temp",
}
# The same, of releases that know it: an older server would refuse the session.
_SINCE_17 = {"transaction_timeout": "0"}

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
_NEWER: set[str] = set()
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
        "client_encoding": "utf8",
        **_NETWORK,
    }


def lent(name: str) -> dict[str, Any]:
    """Arguments of psycopg's `connect` for a session in which users' code runs."""
    return {
        "autocommit": True,
        "application_name": name,
        # A pooler may lend the session on after the transaction.
        "prepare_threshold": None,
        "client_encoding": "utf8",
        **_NETWORK,
    }


class Session(Link):
    """A connection of Rota's own. Where a pooler refuses settings it does without: the functions
    of the schema carry their own."""

    @classmethod
    def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        arguments = _without_given(conninfo, arguments)
        try:
            conn = super().connect(conninfo, **arguments, options=_options(conninfo))
        except psycopg.OperationalError as error:
            if not _is_refusal(error):
                raise
            return super().connect(conninfo, **arguments)
        for statement in _learn(conninfo, conn.info.server_version):
            conn.execute(statement)
        return conn


class AsyncSession(AsyncLink):
    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        arguments = _without_given(conninfo, arguments)
        try:
            conn = await super().connect(conninfo, **arguments, options=_options(conninfo))
        except psycopg.OperationalError as error:
            if not _is_refusal(error):
                raise
            return await super().connect(conninfo, **arguments)
        for statement in _learn(conninfo, conn.info.server_version):
            await conn.execute(statement)
        return conn


def _without_given(conninfo: str, arguments: dict[str, Any]) -> dict[str, Any]:
    given = conninfo_to_dict(conninfo).keys() & _NETWORK.keys()
    return {key: value for key, value in arguments.items() if key not in given}


def _options(conninfo: str) -> str:
    """The user's own, then ours: the last one counts."""
    given = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    known = SETTINGS | (_SINCE_17 if conninfo in _NEWER else {})
    ours = ("-c " + f"{name}={value}".replace(" ", "\\ ") for name, value in known.items())
    return " ".join([str(given), *ours]).strip()


def _learn(conninfo: str, version: int) -> list[bytes]:
    """The first session with a server that knows more is told the rest, the others begin so."""
    is_newer, was_newer = version >= 170000, conninfo in _NEWER
    (_NEWER.add if is_newer else _NEWER.discard)(conninfo)
    if not is_newer or was_newer:
        return []
    return [f"SET {name} = {value}".encode() for name, value in _SINCE_17.items()]


def _is_refusal(error: psycopg.OperationalError) -> bool:
    return any(words in str(error) for words in _REFUSALS)
