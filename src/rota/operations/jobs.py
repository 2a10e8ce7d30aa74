"""Commands about jobs: read, change, enable, disable, delete, and compare them with the code."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from rota.config import Config
from rota.errors import JobError
from rota.jobs.elsewhere import OF_JOBS, refuse
from rota.jobs.registry import Registry
from rota.jobs.sync import put_others, whole
from rota.model.drift import Drift, Synced
from rota.model.job import JobFunction, JobInfo, SqlFunction
from rota.model.list_filters import JobFilters, JobOrder
from rota.model.page import Page
from rota.model.queue import JobDepth
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.job_changes import (
    JobChangeKeywords,
    JobSettingKeywords,
    check_name,
    columns_of,
    columns_to_reset,
)
from rota.operations.schedules.edits import said
from rota.operations.schedules.next_time import compute_next
from rota.operations.schedules.payloads import encoded
from rota.postgres import jobs
from rota.postgres.definitions import Declared
from rota.postgres.plans import Plan

Found = list[JobInfo]
Drifts = list[Drift]
Names = list[str]
Depths = dict[str, JobDepth]
Functions = list[JobFunction]


class JobCommands(Commands):
    """`registry` contains the jobs of this process, which `plan` and `sync_definitions` compare
    with the database."""

    registry: Registry = Registry()
    config: Config

    @command
    def list(self, *, order: JobOrder = "name", **filters: Unpack[JobFilters]) -> Plan[Found]:
        """List all registered jobs, by `name`, or the `newest` or most recently `changed` first;
        filtered by `text`, `tag`, `queue`, `enabled` and `metadata`. `system` includes Rota's
        own jobs."""
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
        """One page of that list, with the cursor of the next."""
        return jobs.page_jobs(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: str) -> Plan[JobInfo]:
        """Return one job. Raises UnknownJob if no application has registered it."""
        return jobs.find_job(name)

    @command
    def depths(self, name: str | None = None) -> Plan[Depths]:
        """Waiting and running runs by job: of one job, or of all that have any."""
        return jobs.read_depths(name)

    @command
    def function(self, name: str) -> Plan[SqlFunction | None]:
        """The function that a SQL job calls, as stored in the database; None for other jobs."""
        return jobs.find_function(name)

    @command
    def functions(self, text: str | None = None) -> Plan[Functions]:
        """The functions and procedures of the database that a job can call: they take no argument
        or one jsonb. `text` is looked for in name and schema."""
        return jobs.list_functions(text)

    @command
    def create(
        self,
        name: str,
        function: str,
        *,
        reason: str | None = None,
        **settings: Unpack[JobSettingKeywords],
    ) -> Plan[JobInfo]:
        """Create a job that calls a function of the database, `public.close_orders`; Python jobs
        are declared in code. Raises JobError if a job cannot call it, and WrongState if there is a
        job of that name."""
        check_name(name)
        given: Any = {**settings, "function": function}
        columns = columns_of(name, given, self.config)
        return jobs.create_job(name, columns, reason=reason, actor=self.actor)

    @command
    def update(
        self,
        name: str,
        *,
        reset: bool | Sequence[str] = (),
        reason: str | None = None,
        version: int | None = None,
        **changes: Unpack[JobChangeKeywords],
    ) -> Plan[JobInfo]:
        """Override settings of the code; deployments keep them. Queue, priority, maximum attempts
        and default payload apply to new runs, and waiting runs keep theirs; timeout, backoff and
        log level apply from the next attempt. Fields in `reset` are reset to the code; True: all
        of them. Raises
        PayloadError if the job would not take the default payload, and VersionConflict if the job
        is not at `version`."""
        columns = columns_of(name, self._fitting(name, changes), self.config)
        given = columns_to_reset(reset)
        return jobs.update_job(
            name, columns, reset=given, version=version, reason=reason, actor=self.actor
        )

    @command
    def enable(self, name: str, reason: str | None = None) -> Plan[bool]:
        """Enable a job. Returns whether it changed: False if it was already enabled."""
        return self._set_enabled(name, True, reason)

    @command
    def disable(self, name: str, reason: str | None = None) -> Plan[bool]:
        """Disable a job: its runs wait, including new ones, and its schedules skip their times.
        Returns whether it changed: False if it was already disabled."""
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
        """Delete a job. Raises WrongState if it has schedules (`cascade` deletes them too) or
        unfinished runs (`cancel_open` cancels them). History and audit are kept; code that still
        declares it registers it again at its next start. Raises VersionConflict if it is not at
        `version`. Returns how many runs were cancelled."""
        return jobs.delete_job(
            name, cascade=cascade, cancel_open=cancel_open, version=version, reason=reason,
            actor=self.actor,
        )  # fmt: skip

    @command
    def rename(self, name: str, new_name: str, *, reason: str | None = None) -> Plan[int]:
        """Rename a job, with its overrides, schedules, limits, bindings, keys and unfinished runs.
        If a job of the new name exists, the two are merged. Enqueues under the old name continue to
        work, and lists find the history under both. Raises WrongState if live workers know the job
        only by its old name. Returns how many unfinished runs were moved."""
        return jobs.rename_job(name, new_name, reason=reason, actor=self.actor)

    @command
    def plan(self) -> Plan[Drifts]:
        """The differences between this process's code and the database, and who made them."""
        declared = [
            {"tenant": tenant, "name": name, "document": said(columns)}
            for (tenant, name), columns in self.registry.schedules.items()
        ]
        queues = [
            {"name": one.key[-1], "max_waiting": one.value[0], "when_full": one.value[1]}
            for kind in self.registry.kinds if kind.noun == "queues" for one in kind.said()
        ]  # fmt: skip
        others = {
            "declared": json.dumps(declared, ensure_ascii=False), "queues": json.dumps(queues),
        }  # fmt: skip
        return jobs.plan_jobs(whole(self.registry, self.config) | others)

    @command
    def sync_definitions(self, force: bool | Sequence[str] = ()) -> Plan[Synced]:
        """Store what this code declares (jobs, schedules, queues), and mark jobs that it no longer
        declares. Operators' changes of jobs and of their schedules are kept, except for the jobs in
        `force`; True: for all jobs. Returns what was written."""
        forced = self._forced(force)
        return self._sync(whole(self.registry, self.config, forced=forced), forced)

    def _forced(self, force: bool | Sequence[str]) -> Names:
        if isinstance(force, bool):
            return self.registry.names() if force else []
        if isinstance(force, str) or not isinstance(force, Iterable):
            raise JobError(
                f"force must be True or a list of job names, not {force!r}",
                hint="use force=True for all jobs",
            )
        return [self.registry.get(name).name for name in force]

    def _sync(self, definitions: Declared, forced: Sequence[str]) -> Plan[Synced]:
        names = yield from jobs.sync_jobs(definitions, actor=self.actor)
        others = yield from put_others(self.registry, definitions["build"], forced)
        yield from compute_next()
        written = sorted(name for name in names if name in self.registry)
        deleted = sorted(name for name in names if name not in self.registry)
        return Synced(written, deleted, others.get("schedules", 0), others.get("queues", 0))

    def _fitting(self, name: str, changes: JobChangeKeywords) -> JobChangeKeywords:
        """Return the changes, with the default payload as the types of the job store it, if this
        process declares the job; for other jobs the database checks the arguments."""
        for key in ("default_payload", "payload"):
            if isinstance(given := changes.get(key), Mapping):
                changes = {**changes, key: encoded(self.registry, name, given)}  # type: ignore[misc]
        return changes

    def _set_enabled(self, name: str, enabled: bool, reason: str | None) -> Plan[bool]:
        yield from jobs.find_job(name)
        return (yield from jobs.set_job_enabled(name, enabled, reason=reason, actor=self.actor))

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            refuse(self, name, OF_JOBS, "app.jobs")

    def of(self, registry: Registry, config: Config) -> Self:
        """Return a copy for another registry."""
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
