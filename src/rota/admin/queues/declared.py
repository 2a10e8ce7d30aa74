"""`app.queue`: what code says about queues, stored when the application opens its database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from rota.errors import JobError
from rota.jobs.values import check_number, check_text
from rota.model.queue import WhenFull
from rota.store.plans import Plan
from rota.store.queues import put_queue
from rota.store.sessions.pool import Conn, Database

# Whom the audit names: nobody typed it.
ACTOR = "code"
MOST_WAITING = 1_000_000_000
Declared = tuple[int | None, WhenFull]


class DeclaredQueues:
    """What is declared before the database is open waits here; later ones are stored at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, Declared] = {}

    def add(self, name: str, max_waiting: int | None, when_full: WhenFull) -> None:
        """Checked here and now, so that a mistake is found where it is written."""
        wanted = {name: checked(name, max_waiting, when_full)}
        if self._database.is_open:
            self._database.run_sync(_put(wanted))
        else:
            self._waiting |= wanted

    def store(self, conn: Conn) -> None:
        self._database.run_on(conn, _put(self._waiting))
        self._waiting.clear()


def checked(name: str, max_waiting: int | None, when_full: WhenFull) -> Declared:
    try:
        check_text("name", name, most=100)
        if max_waiting is not None:
            check_number("max_waiting", max_waiting, 0, MOST_WAITING)
        if when_full not in get_args(WhenFull):
            choices = ", ".join(get_args(WhenFull))
            raise ValueError(f"when_full must be one of {choices}, not {when_full!r}")
    except ValueError as error:
        raise JobError(f"queue {name!r}: {error}") from None
    return max_waiting, when_full


def _put(wanted: Mapping[str, Declared]) -> Plan[None]:
    """By name, so that two starting processes cannot deadlock."""
    for name in sorted(wanted):
        most, when_full = wanted[name]
        yield from put_queue(name, most, when_full, actor=ACTOR)
