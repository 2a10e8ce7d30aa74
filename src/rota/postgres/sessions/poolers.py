"""Detects a pooler that may give each transaction another session of the server.

Then no state may be left in a session: no prepared statement, no LISTEN, no SET. PgBouncer does
this in transaction mode, but not in session mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from rota.errors import DatabaseError
from rota.postgres.sessions.connection import Conn
from rota.postgres.sessions.opening import SETTINGS
from rota.postgres.statements import read
from rota.telemetry.logger import get_logger

_LOOKS = 10
# These belong to the application, whose sessions have the same role; Rota's statements name schemas
# and time zones.
_THEIRS = ("search_path", "TimeZone")
# Without these settings the server's values cannot be read.
_FORMS = ("DateStyle", "IntervalStyle", "bytea_output", "standard_conforming_strings")


def shares_sessions(conn: Conn, connect: Callable[[], Conn]) -> bool:
    """Return whether a pooler shares server processes between clients. A pooler reports its own
    number instead of the server's process id. In transaction mode two clients that take turns get
    the same process, or one client gets different processes."""
    first = _process(conn)
    if first == conn.info.backend_pid:
        return False
    with connect() as other:
        beside = _process(other)
        for _ in range(_LOOKS):
            if beside == first or (_process(conn), _process(other)) != (first, beside):
                return True
    return False


def _process(conn: Conn) -> int:
    row = conn.execute(read("session/process")).fetchone()
    assert row is not None
    return int(row[0])


def check_settings(conn: psycopg.Connection[Any]) -> None:
    """Check the server's settings, because a pooler does not pass Rota's on: refuse those that
    cannot work, warn about those that make Rota slower."""
    wanted = {name.lower(): text for name, text in SETTINGS.items() if name not in _THEIRS}
    names = [name for name in SETTINGS if name not in _THEIRS]
    found = conn.execute(read("session/settings").encode(), {"names": names}).fetchall()
    wrong = {name: wanted[name.lower()] for name, value in found if value != wanted[name.lower()]}
    if not wrong:
        return
    hint = "; ".join(_change(conn, name, text) for name, text in wrong.items())
    if wrong.keys() & set(_FORMS):
        raise DatabaseError(
            "the pooler does not pass settings on, and Rota cannot work with the server's own",
            hint=hint,
            sqlstate="55000",
        )
    get_logger("database").warning(
        "the pooler does not pass settings on, and the server's own make Rota slower", hint=hint
    )


def _change(conn: psycopg.Connection[Any], name: str, value: str) -> str:
    query = read("session/change_setting").encode()
    (change,) = conn.execute(query, {"name": name, "value": value}).fetchone() or ("",)
    return str(change)
