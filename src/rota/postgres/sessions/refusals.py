"""Finds the SQLSTATE of a refused connection.

The driver keeps only the message, which is in the server's language. In verbose mode libpq puts the
code before the message; so the connection is tried once more through libpq.
"""

from __future__ import annotations

import ctypes
import re
import select
import time
from functools import cache
from pathlib import Path

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq import ConnStatus, PollingStatus
from psycopg.pq.abc import PGconn

_VERBOSE = 2
_SECONDS = 10.0
_CODE = re.compile(r":\s+(?=[A-Z]*[0-9])([0-9A-Z]{5}): ")
# English messages, for the case that libpq is not accessible.
_WORDS = {
    "too many clients": "53300",
    "too many connections": "53300",
    "remaining connection slots": "53300",
    "password authentication failed": "28P01",
    "no pg_hba.conf entry": "28000",
    "the database system is": "57P03",
}

# A database that accepts no connections is treated like a server that is not ready.
_SAME = {"55000": "57P03"}


def code_of(error: psycopg.Error, conninfo: str | None = None) -> str | None:
    """Return the SQLSTATE of a refused connection; None if there was no answer or the code is
    unknown. `conninfo` is tried once more if the message is not known."""
    if error.sqlstate is not None:
        return error.sqlstate
    message = str(error)
    known = next((code for words, code in _WORDS.items() if words in message), None)
    if known is None and conninfo is not None:
        return _ask(conninfo)
    return known


def _ask(conninfo: str) -> str | None:
    library = _libpq()
    if library is None:
        return None
    try:
        pgconn = pq.PGconn.connect_start(make_conninfo(conninfo).encode())
    except psycopg.Error:
        return None
    try:
        handle = getattr(pgconn, "pgconn_ptr", None)
        if handle is None or pgconn.status == ConnStatus.BAD:
            return None
        library.PQsetErrorVerbosity(ctypes.c_void_p(handle), _VERBOSE)
        _finish_connecting(pgconn)
        found = _CODE.search(pgconn.error_message.decode("utf-8", "replace"))
        return _SAME.get(found[1], found[1]) if found else None
    except (psycopg.Error, OSError):
        return None
    finally:
        pgconn.finish()


def _finish_connecting(pgconn: PGconn) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        status = pgconn.connect_poll()
        if status in (PollingStatus.OK, PollingStatus.FAILED):
            return
        look = select.poll()
        is_reading = status == PollingStatus.READING
        look.register(pgconn.socket, select.POLLIN if is_reading else select.POLLOUT)
        look.poll(max(0.0, deadline - time.monotonic()) * 1000)


@cache
def _libpq() -> ctypes.CDLL | None:
    """Return the libpq that the driver has loaded; None if it cannot be found."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
        path = next(line.split(maxsplit=5)[5] for line in maps if "libpq" in line)
        return ctypes.CDLL(path)
    except (OSError, StopIteration, IndexError):
        return None
