"""Whether a pooler gives each of our transactions another session of the server.

Then nothing may be left in a session: no prepared statement, no LISTEN, no SET. PgBouncer in
transaction mode is one; in session mode it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from rota.errors import DatabaseError
from rota.store.sessions.connection import Conn
from rota.store.sessions.opening import SETTINGS
from rota.store.statements import read
from rota.telemetry.logger import get_logger

_LOOKS = 10
# These belong to the application, whose sessions have the same role; Rota's statements name schemas
# and zones.
_THEIRS = ("search_path", "TimeZone")
# Without these what the server says cannot be read.
_FORMS = ("DateStyle", "IntervalStyle", "bytea_output", "standard_conforming_strings")


def shares_sessions(conn: Conn, connect: Callable[[], Conn]) -> bool:
    """A pooler tells each of its clients a number of its own instead of the server process's. One
    that lends a process for a transaction only lends the same one to two clients that take turns,
    or now this and now that to one of them."""
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
    """Behind a pooler the server's own settings hold, as ours do not reach it: refuse what cannot
    work, and say what works worse."""
    wanted = {name.lower(): it for name, it in SETTINGS.items() if name not in _THEIRS}
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
