"""`app.schedule`: schedules that code declares, stored when the application opens its database."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from rota.admin.app_commands import CommandSets
from rota.admin.schedules.next_time import compute_next
from rota.errors import JobError, ScheduleNotFound
from rota.jobs.decorator import BoundJob
from rota.jobs.values import checked_tenant
from rota.store.plans import Plan
from rota.store.sessions.pool import Conn

if TYPE_CHECKING:
    from rota.jobs.registry import Registry
    from rota.jobs.schedule_options import ScheduleArguments

# Tenant and name.
Key = tuple[str, str]
# Whom the audit names: nobody typed it.
ACTOR = "code"
_PORTION = 1000


class DeclaredSchedules:
    """What is declared before the database is open waits here; later ones are stored at once."""

    def __init__(self, app: CommandSets) -> None:
        self._app = app
        self._waiting: dict[Key, Mapping[str, Any]] = {}
        self._places: dict[Key, str] = {}

    def add(
        self,
        name: str,
        job: BoundJob | str,
        tenants: Iterable[str],
        arguments: ScheduleArguments,
    ) -> None:
        """One for each tenant. Checked here and now, so that a mistake is found where it is
        written. Until the database is open a name is said once, or twice the same."""
        from rota.admin.schedules import payloads
        from rota.admin.schedules.edits import whole

        job_name = job if isinstance(job, str) else job.name
        whole(name, job_name, {**arguments, "payload": None})
        said = payloads.declared(self._app.registry, name, job_name, arguments)
        columns = whole(name, job_name, said)
        wanted = {(_whose(tenant), name): columns for tenant in tenants}
        place = _caller()
        if not self._app.database.is_open:
            self._refuse_another(wanted, place)
        self._app.registry.schedules.update(wanted)
        self._places |= dict.fromkeys(wanted, place)
        if self._app.database.is_open:
            self._app.database.run_sync(_put(wanted, self._app.registry, None))
        else:
            self._waiting |= wanted

    def _refuse_another(self, wanted: Mapping[Key, Mapping[str, Any]], place: str) -> None:
        """Which of two holds would depend on the order of imports."""
        for (tenant, name), columns in wanted.items():
            known = self._waiting.get((tenant, name), columns)
            if known != columns:
                whose = f' of tenant "{tenant}"' if tenant else ""
                raise JobError(
                    f'schedule "{name}"{whose} is declared twice, and not the same: '
                    f"{self._places[tenant, name]} and {place}",
                    hint="give one of them another name, or remove it",
                )

    def remove(self, name: str, tenant: str) -> None:
        """ScheduleNotFound if it was neither declared nor stored."""
        self._app.registry.schedules.pop((tenant, name), None)
        was_waiting = self._waiting.pop((tenant, name), None) is not None
        try:
            self._app.schedules.by(ACTOR).sync.delete(name, tenant=tenant)
        except ScheduleNotFound:
            if not was_waiting:
                raise

    def store(self, conn: Conn) -> None:
        registry = self._app.registry
        self._app.database.run_on(conn, _put(self._waiting, registry, registry.application))
        self._waiting.clear()

    def forget_stored(self) -> None:
        """The database is another one: it has to be told of all."""
        self._waiting = dict(self._app.registry.schedules)


def _put(
    wanted: Mapping[Key, Mapping[str, Any]], registry: Registry, application: str | None
) -> Plan[None]:
    """By tenant and name, so that two starting processes cannot deadlock; a thousand in a
    statement. The application is named by what its code says at its start."""
    if wanted:
        from rota.admin.schedules.payloads import check_stored

        said = [(name, it["job"], it["payload"]) for (_, name), it in wanted.items()]
        yield from check_stored(registry, said)
        yield from _put_ordered(wanted, application)
    yield from compute_next()  # also of those that jobs declare


def _put_ordered(wanted: Mapping[Key, Mapping[str, Any]], application: str | None) -> Plan[None]:
    from rota.admin.schedules.edits import put_many

    ordered = [(tenant, name, wanted[tenant, name]) for tenant, name in sorted(wanted)]
    for first in range(0, len(ordered), _PORTION):
        part = ordered[first : first + _PORTION]
        yield from put_many(part, actor=ACTOR, application=application)


def _caller() -> str:
    """The line that declares it: the first one outwards that is not Rota's own."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith("rota."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown"


def _whose(tenant: str) -> str:
    return checked_tenant(tenant) if tenant else ""
