"""What one can know of jobs, and do with them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from rota.admin.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.admin.job_changes import JobChanges, columns_of, columns_to_reset
from rota.admin.schedules.next_time import compute_next
from rota.config import Config
from rota.errors import JobError, WrongState
from rota.jobs.elsewhere import OF_JOBS, refuse
from rota.jobs.registry import Registry
from rota.jobs.sync import whole
from rota.model.drift import Drift
from rota.model.job import JobInfo, SqlFunction
from rota.model.list_filters import JobFilters, JobOrder
from rota.model.page import Page
from rota.model.queue import JobDepth
from rota.store import jobs
from rota.store.plans import Plan

Found = list[JobInfo]
Drifts = list[Drift]
Names = list[str]
Depths = dict[str, JobDepth]


class JobCommands(Commands):
    """`registry` is what this process declares: what `plan` and `sync_definitions` compare."""

    registry: Registry = Registry()
    config: Config

    @command
    def list(self, *, order: JobOrder = "name", **filters: Unpack[JobFilters]) -> Plan[Found]:
        """Every job that some application has registered, by `name`, or the `newest` or last
        `changed` one first; narrowed by `text`, `tag`, `queue`, `enabled` and
        `metadata`. Rota's own with
        `system`."""
        return jobs.list_jobs(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: JobOrder = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[JobFilters],
    ) -> Plan[Page[JobInfo]]:
        """A part of that list, and the cursor that leads to the next."""
        return jobs.page_jobs(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: str) -> Plan[JobInfo]:
        """UnknownJob if no application has registered it."""
        return jobs.find_job(name)

    @command
    def depths(self, name: str | None = None) -> Plan[Depths]:
        """What waits and runs, by job: of one, or of all that have any."""
        return jobs.read_depths(name)

    @command
    def function(self, name: str) -> Plan[SqlFunction | None]:
        """What a SQL job calls, as the database has it; None for a job of another kind."""
        return jobs.find_function(name)

    @command
    def update(
        self,
        name: str,
        *,
        reset: Sequence[str] = (),
        reason: str | None = None,
        version: int | None = None,
        **changes: Unpack[JobChanges],
    ) -> Plan[JobInfo]:
        """Change what the code said; the next attempt uses it, and the code no longer overwrites
        it. Fields named in `reset` go back to what the code says. VersionConflict if it is not at
        `version` any more."""
        columns = columns_of(name, changes, self.config)
        given = columns_to_reset(reset)
        return jobs.update_job(
            name, columns, reset=given, version=version, reason=reason, actor=self.actor
        )

    @command
    def enable(self, name: str, reason: str | None = None) -> Plan[None]:
        """WrongState if it is."""
        return self._set_enabled(name, True, reason)

    @command
    def disable(self, name: str, reason: str | None = None) -> Plan[None]:
        """Its runs wait, what is enqueued too; its schedules skip their times."""
        return self._set_enabled(name, False, reason)

    @command
    def delete(
        self,
        name: str,
        *,
        cascade: bool = False,
        cancel_open: bool = False,
        version: int | None = None,
        reason: str | None = None,
    ) -> Plan[int]:
        """WrongState while it has schedules (`cascade` deletes them too) or runs that have not
        ended (`cancel_open` cancels them). History and audit stay; code that still declares it
        brings it back at its next start. VersionConflict if it is not at `version` any more.
        Answers how many runs were cancelled."""
        return jobs.delete_job(
            name, cascade=cascade, cancel_open=cancel_open, version=version, reason=reason,
            actor=self.actor,
        )  # fmt: skip

    @command
    def plan(self) -> Plan[Drifts]:
        """Where this process's code and the database differ, and who changed it."""
        return jobs.plan_jobs(whole(self.registry, self.config))

    @command
    def sync_definitions(self, force: bool | Sequence[str] = ()) -> Plan[Names]:
        """Write what this code says, now, and mark what it no longer declares. What operators
        changed stays, except of the jobs in `force`; True: of all. Answers the names of those
        written."""
        return self._sync(whole(self.registry, self.config, forced=self._forced(force)))

    def _forced(self, force: bool | Sequence[str]) -> Names:
        if isinstance(force, bool):
            return self.registry.names() if force else []
        if isinstance(force, str) or not isinstance(force, Iterable):
            raise JobError(
                f"force must be True or a list of names of jobs, not {force!r}",
                hint="write force=True for all of them",
            )
        return [self.registry.get(name).name for name in force]

    def _sync(self, definitions: Mapping[str, Any]) -> Plan[Names]:
        written = yield from jobs.sync_jobs(definitions, actor=self.actor)
        yield from compute_next()
        return written

    def _set_enabled(self, name: str, enabled: bool, reason: str | None) -> Plan[None]:
        found = yield from jobs.find_job(name)
        if found.is_enabled == enabled:
            raise WrongState(f'job "{name}" is already {"enabled" if enabled else "disabled"}')
        yield from jobs.set_job_enabled(name, enabled, reason=reason, actor=self.actor)

    if not TYPE_CHECKING:  # they would take it that every name is there

        def __getattr__(self, name: str) -> Any:
            refuse(self, name, OF_JOBS, "app.jobs")

    def of(self, registry: Registry, config: Config) -> Self:
        """The same for what another registry declares."""
        other = copy.copy(self)
        other.registry, other.config = registry, config
        return other


class Jobs(JobCommands, AsyncCommands):
    """`app.jobs`"""

    @property
    def sync(self) -> SyncJobs:
        return SyncJobs(self.database, self.actor).of(self.registry, self.config)


class SyncJobs(JobCommands, SyncCommands):
    """`app.jobs.sync`"""
