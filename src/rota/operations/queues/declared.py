"""`app.queue`: what code says about queues, stored when the application opens its database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.errors import InputError, JobError
from rota.jobs.registry import Declaration, Registry
from rota.jobs.values import check_text
from rota.model.fields import settings_of
from rota.model.queue import QueueSettings, WhenFull
from rota.postgres.plans import Plan
from rota.postgres.queues import put_queue
from rota.postgres.sessions.pool import Database

# Whom the audit names: nobody typed it.
ACTOR = "code"
Declared = tuple[int | None, WhenFull]


class DeclaredQueues:
    """What is declared before the database is open is stored then; later ones at once."""

    noun = "queues"

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry
        self._declared: dict[str, Declared] = {}
        registry.kinds.append(self)

    def add(self, name: str, max_waiting: int | None, when_full: WhenFull) -> None:
        """Checked here and now, so that a mistake is found where it is written."""
        wanted = {name: checked(name, max_waiting, when_full)}
        self._declared |= wanted
        if self._database.is_open:
            self._database.run_sync(self._put(wanted, self._registry.build))

    def said(self) -> list[Declaration]:
        return [Declaration((name,), value) for name, value in self._declared.items()]

    def put(self, build: str | None, forced: Sequence[str] = ()) -> Plan[int]:
        return self._put(self._declared, build)

    def _put(self, wanted: Mapping[str, Declared], build: str | None) -> Plan[int]:
        """By name, so that two starting processes cannot deadlock."""
        written = 0
        for name in sorted(wanted):
            written += yield from put_queue(
                name,
                *wanted[name],
                actor=ACTOR,
                application=self._registry.application,
                build=build,
            )
        return written


def checked(name: str, max_waiting: int | None, when_full: WhenFull) -> Declared:
    try:
        check_text("name", name, most=100)
        given = {"max_waiting": max_waiting, "when_full": when_full}
        known = {one.name: one for one in settings_of(QueueSettings)}
        checked = {name: known[name].read(value) for name, value in given.items()}
    except (ValueError, InputError) as error:
        raise JobError(f"queue {name!r}: {error}") from None
    return checked["max_waiting"], checked["when_full"]
