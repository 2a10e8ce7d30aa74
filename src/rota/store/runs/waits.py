"""What one says and asks of the database while one waits for runs to end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from psycopg import Notify

from rota.model.run import RunEnd
from rota.store.pipeline.prepared import Prepared
from rota.store.rows import read_json_column
from rota.store.sessions.connection import Conn
from rota.store.statements import Statements
from rota.store.workers import calls


class WaitStatements:
    """For one process, which has a channel of its own."""

    def __init__(self, statements: Statements) -> None:
        self.channel = f"rota_waits_{secrets.token_hex(8)}"
        self._listen = calls.listen(statements, self.channel)
        self._begin = statements.get("waits/begin")
        self._leave = statements.get("waits/leave")
        self._await = Prepared("await", statements.get("waits/await"))
        self._open = Prepared("still_open", statements.get("runs/still_open"))

    def listen(self, conn: Conn, heard: Callable[[str], object]) -> None:
        """`heard` gets the words of each call that comes while a statement is carried out; those
        that come later are the reader's to fetch."""

        def hear(call: Notify) -> None:
            heard(call.payload)

        conn.add_notify_handler(hear)
        conn.execute(self._listen)
        conn.execute(self._begin, {"channel": self.channel})

    def announce(self, conn: Conn, ids: Sequence[int]) -> set[int]:
        """These runs are waited for. Returns which of them are not open any more."""
        params = {"channel": self.channel, "ids": list(ids)}
        return set(self._await.fetch_sync(conn, params, _first))

    def gone(self, conn: Conn, ids: Sequence[int]) -> set[int]:
        """The same, without a word."""
        return set(ids) - set(self._open.fetch_sync(conn, {"ids": list(ids)}, _first))

    def leave(self, conn: Conn, ids: Sequence[int]) -> None:
        """These are waited for no longer."""
        conn.execute(self._leave, {"channel": self.channel, "ids": list(ids)})


def read_call(words: str) -> RunEnd | int | None:
    """What a call says: the end of a run, or its id for one who is to look; None is a trial."""
    if not words or words.isdecimal():
        return int(words) if words else None
    told, _, result = words.partition("\n")
    return RunEnd(result=read_json_column(result) if result else None, **read_json_column(told))


def _first(row: Sequence[int]) -> int:
    return row[0]
