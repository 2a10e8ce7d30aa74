"""`app.schedule`: schedules that code declares, stored when the application opens its database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rota.admin.schedule_edits import put_whole, whole
from rota.admin.schedule_next import compute_next
from rota.admin.schedules import Schedules
from rota.errors import ScheduleNotFound
from rota.jobs.decorator import BoundJob
from rota.jobs.schedule_options import ScheduleArguments
from rota.store.plans import Plan
from rota.store.pool import Conn, Database

# Whom the audit names: nobody typed it.
ACTOR = "code"


class DeclaredSchedules:
    """What is declared before the database is open waits here; later ones are stored at once."""

    def __init__(self, database: Database, schedules: Schedules) -> None:
        self._database = database
        self._schedules = schedules
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}

    def add(
        self,
        name: str,
        job: BoundJob[...] | str,
        tenant: str,
        arguments: ScheduleArguments,
    ) -> None:
        """Checked here and now, so that a mistake is found where it is written."""
        job_name = job if isinstance(job, str) else job.name
        checked = self._schedules.checked(job_name, arguments)
        columns = whole(name, job_name, checked)
        if self._database.is_open:
            self._database.run_sync(put_whole(name, tenant, columns, actor=ACTOR))
        else:
            self._waiting[tenant, name] = columns

    def remove(self, name: str, tenant: str) -> None:
        """ScheduleNotFound if it was neither declared nor stored."""
        was_waiting = self._waiting.pop((tenant, name), None) is not None
        try:
            self._schedules.by(ACTOR).sync.delete(name, tenant=tenant)
        except ScheduleNotFound:
            if not was_waiting:
                raise

    def store(self, conn: Conn) -> None:
        """By name, so that two starting processes cannot deadlock."""
        for plan in self._plans():
            self._database.run_on(conn, plan)
        self._waiting.clear()
        self._database.run_on(conn, compute_next())  # of those that jobs declare

    def _plans(self) -> Iterator[Plan[bool]]:
        for (tenant, name), columns in sorted(self._waiting.items()):
            yield put_whole(name, tenant, columns, actor=ACTOR)
