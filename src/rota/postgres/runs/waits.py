"""Statements of a process that waits for runs to end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from psycopg import Notify

from rota.model.run import RunEnd
from rota.postgres.pipeline.prepared import Prepared
from rota.postgres.rows import read_json_column
from rota.postgres.sessions.connection import Conn
from rota.postgres.statements import Statements
from rota.postgres.workers import calls


class WaitStatements:
    """The statements of one process, which has its own channel."""

    def __init__(self, statements: Statements) -> None:
        self.channel = f"rota_waits_{secrets.token_hex(8)}"
        self._listen = calls.listen(statements, self.channel)
        self._begin = statements.get("waits/begin")
        self._leave = statements.get("waits/leave")
        self._await = Prepared("await", statements.get("waits/await"))
        self._open = Prepared("still_open", statements.get("runs/still_open"))

    def listen(self, conn: Conn, heard: Callable[[str], object]) -> None:
        """Listen for calls. `heard` gets the payload of each call that arrives during a statement;
        the reader fetches later ones."""

        def hear(call: Notify) -> None:
            heard(call.payload)

        conn.add_notify_handler(hear)
        conn.execute(self._listen)
        conn.execute(self._begin, {"channel": self.channel})

    def announce(self, conn: Conn, ids: Sequence[int]) -> set[int]:
        """Record that the process waits for these runs; return those that are no longer open."""
        params = {"channel": self.channel, "ids": list(ids)}
        return set(self._await.fetch_sync(conn, params, _first))

    def gone(self, conn: Conn, ids: Sequence[int]) -> set[int]:
        """Return those of these runs that are no longer open."""
        return set(ids) - set(self._open.fetch_sync(conn, {"ids": list(ids)}, _first))

    def leave(self, conn: Conn, ids: Sequence[int]) -> None:
        """Record that the process no longer waits for these runs."""
        conn.execute(self._leave, {"channel": self.channel, "ids": list(ids)})


def read_call(words: str) -> RunEnd | int | None:
    """Parse a call: the end of a run, the id of a run to be read, or None for a test call."""
    if not words or words.isdecimal():
        return int(words) if words else None
    fields, _, result = words.partition("\n")
    return RunEnd(result=read_json_column(result) if result else None, **read_json_column(fields))


def _first(row: Sequence[int]) -> int:
    return row[0]
