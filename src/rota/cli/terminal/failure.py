"""The errors of commands."""

from __future__ import annotations


class Failure(Exception):
    """Ends a command: `error: …`, `hint: …`, and the exit code (1 failed, 2 wrong use)."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def is_away(error: Exception) -> bool:
    """Return whether the database is unreachable at present: it restarts, or the network is
    down."""
    from rota.errors import DatabaseError

    state = error.sqlstate if isinstance(error, DatabaseError) else "-"
    # Connection exceptions, shutdowns and starts, too many connections.
    return not state or state[:2] in ("08", "57") or state == "53300"
