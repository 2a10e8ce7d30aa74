"""`app.schedule`: schedules that code declares, stored when the application opens its database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rota.admin.app_commands import CommandSets
from rota.admin.schedules.next_time import compute_next
from rota.errors import ScheduleNotFound
from rota.jobs.decorator import BoundJob
from rota.jobs.values import checked_tenant
from rota.store.plans import Plan
from rota.store.sessions.pool import Conn

if TYPE_CHECKING:
    from rota.jobs.schedule_options import ScheduleArguments

# Whom the audit names: nobody typed it.
ACTOR = "code"
_PORTION = 1000


class DeclaredSchedules:
    """What is declared before the database is open waits here; later ones are stored at once."""

    def __init__(self, app: CommandSets) -> None:
        self._app = app
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}
        self._all: dict[tuple[str, str], dict[str, Any]] = {}

    def add(
        self,
        name: str,
        job: BoundJob | str,
        tenants: Iterable[str],
        arguments: ScheduleArguments,
    ) -> None:
        """One for each tenant. Checked here and now, so that a mistake is found where it is
        written."""
        from rota.admin.schedules.edits import whole

        job_name = job if isinstance(job, str) else job.name
        columns = whole(name, job_name, self._app.schedules.checked(job_name, arguments))
        wanted = {(_whose(tenant), name): columns for tenant in tenants}
        self._all |= wanted
        if self._app.database.is_open:
            self._app.database.run_sync(_put(wanted))
        else:
            self._waiting |= wanted

    def remove(self, name: str, tenant: str) -> None:
        """ScheduleNotFound if it was neither declared nor stored."""
        self._all.pop((tenant, name), None)
        was_waiting = self._waiting.pop((tenant, name), None) is not None
        try:
            self._app.schedules.by(ACTOR).sync.delete(name, tenant=tenant)
        except ScheduleNotFound:
            if not was_waiting:
                raise

    def store(self, conn: Conn) -> None:
        self._app.database.run_on(conn, _put(self._waiting))
        self._waiting.clear()

    def forget_stored(self) -> None:
        """The database is another one: it has to be told of all."""
        self._waiting = dict(self._all)


def _put(wanted: Mapping[tuple[str, str], dict[str, Any]]) -> Plan[None]:
    """By tenant and name, so that two starting processes cannot deadlock; a thousand in a
    statement."""
    if wanted:
        yield from _put_ordered(wanted)
    yield from compute_next()  # also of those that jobs declare


def _put_ordered(wanted: Mapping[tuple[str, str], dict[str, Any]]) -> Plan[None]:
    from rota.admin.schedules.edits import put_many

    ordered = [(tenant, name, wanted[tenant, name]) for tenant, name in sorted(wanted)]
    for first in range(0, len(ordered), _PORTION):
        yield from put_many(ordered[first : first + _PORTION], actor=ACTOR)


def _whose(tenant: str) -> str:
    return checked_tenant(tenant) if tenant else ""
