"""Opens sessions with the server; the only place that defines their parameters.

Rota's own sessions have the settings that its statements rely on, whatever the settings of the
server, the database or the role. Sessions that are lent to users' code keep the server's
configuration (docs/decisions/0017-sessions.md).
"""

from __future__ import annotations

import os
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rota.postgres.rows import Adapters
from rota.postgres.sessions.connection import AsyncBoundedConnection, BoundedConnection

_ADAPTERS = Adapters()

# Settings that Rota's statements rely on. They are sent when the session starts: a SET would cost a
# round trip, and behind a pooler it would remain on a connection that others use next.
SETTINGS = {
    "jit": "off",  # pinned plans look expensive, so each call would be compiled again
    "default_transaction_isolation": "read committed",  # higher levels make concurrent claims fail
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",  # leases and listeners are usually idle
    "idle_in_transaction_session_timeout": "0",
    # Every wait has its own bound, which fits its purpose.
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Text formats of values, as the driver and the schema's functions read them.
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "array_nulls": "on",
    # Rota's names include their schema; no other schema may come before the server's.
    "search_path": "pg_catalog, pg_temp",
}
# Settings of newer servers only: an older server would refuse the session.
_SINCE_17 = {"transaction_timeout": "0"}

# Detect a vanished server within seconds; the kernel would wait for minutes or hours. Parameters in
# the URL take precedence.
_NETWORK = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

# Error texts of poolers that accept no settings at the start (PgBouncer, RDS Proxy).
_NEWER: set[str] = set()
_REFUSALS = ("startup parameter", "command-line options")


def own(name: str) -> dict[str, Any]:
    """Return the arguments of `Session.connect` and `AsyncSession.connect`, also for a pool."""
    return {
        "autocommit": True,
        "context": _ADAPTERS,
        "application_name": name,
        # Once the driver has prepared a statement itself, it deallocates all statements on a
        # rollback, including Rota's, which it does not track.
        "prepare_threshold": None,
        "client_encoding": "utf8",
        **_NETWORK,
    }


def lent(name: str) -> dict[str, Any]:
    """Return the arguments of psycopg's `connect` for a session in which users' code runs."""
    return {
        "autocommit": True,
        "application_name": name,
        # A pooler may give the session to another client after the transaction.
        "prepare_threshold": None,
        "client_encoding": "utf8",
        **_NETWORK,
    }


class Session(BoundedConnection):
    """A connection with Rota's settings. If a pooler refuses them, connect without them: the
    functions of the schema set their own."""

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


class AsyncSession(AsyncBoundedConnection):
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
    """Return the user's options, then Rota's: the last one counts."""
    given = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    known = SETTINGS | (_SINCE_17 if conninfo in _NEWER else {})
    ours = ("-c " + f"{name}={value}".replace(" ", "\\ ") for name, value in known.items())
    return " ".join([str(given), *ours]).strip()


def _learn(conninfo: str, version: int) -> list[bytes]:
    """Remember whether the server is newer. Return the statements that set the remaining settings
    on the first session; later sessions start with them."""
    is_newer, was_newer = version >= 170000, conninfo in _NEWER
    (_NEWER.add if is_newer else _NEWER.discard)(conninfo)
    if not is_newer or was_newer:
        return []
    return [f"SET {name} = {value}".encode() for name, value in _SINCE_17.items()]


def _is_refusal(error: psycopg.OperationalError) -> bool:
    return any(words in str(error) for words in _REFUSALS)
