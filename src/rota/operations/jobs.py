"""Commands about jobs: read, change, enable, disable, delete, and compare them with the code."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self, Unpack

from rota.config import Config
from rota.errors import JobError
from rota.jobs.elsewhere import OF_JOBS, refuse
from rota.jobs.job_settings import (
    RESETTABLE,
    SHORT_NAMES,
    FunctionName,
    JobChangeKeywords,
    NewJobKeywords,
)
from rota.jobs.registry import Registry
from rota.jobs.sync import put_others, whole
from rota.jobs.values import check_backoff
from rota.model.drift import Drift, Synced
from rota.model.fields import Field
from rota.model.formatting import plural
from rota.model.job import (
    CancelOpen,
    Cascade,
    JobFilters,
    JobFunction,
    JobInfo,
    JobName,
    JobUse,
    NewName,
    Order,
    SqlFunction,
)
from rota.model.page import Page
from rota.model.queue import JobDepth
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, Version, operation
from rota.operations.schedules.edits import said
from rota.operations.schedules.next_time import compute_next
from rota.operations.schedules.payloads import encoded
from rota.postgres import jobs
from rota.postgres.definitions import Declared
from rota.postgres.plans import Plan, call
from rota.postgres.schedules.lists import list_schedules
from rota.postgres.versions import expect_version

Found = list[JobInfo]
Drifts = list[Drift]
Names = list[str]
Depths = dict[str, JobDepth]
Functions = list[JobFunction]


Reset = Annotated[
    bool | list[str],
    Field(
        "Fields to reset to the values in the code.",
        choices=dict.fromkeys(RESETTABLE, ""),
        metavar="FIELD|all",
    ),
]


def _created(job: JobInfo, is_changed: bool, at: ShowTime) -> str:
    return f"created: it calls {job.function_name}"


def _updated(job: JobInfo, is_changed: bool, at: ShowTime) -> str:
    return "updated"


def _enabled(job: JobInfo, is_changed: bool, at: ShowTime) -> str:
    return "enabled" if is_changed else "was already enabled"


def _before_enable(use: JobUse) -> str:
    when = "at once" if use.job.workers else "when a worker knows the job; none does now"
    return f"{plural(use.queued, 'waiting run')} will be claimed {when}."


def _disabled(job: JobInfo, is_changed: bool, at: ShowTime) -> str:
    return "disabled" if is_changed else "was already disabled"


def _before_disable(use: JobUse) -> str:
    skipping = plural(len(use.schedules), "schedule skips its times", "schedules skip their times")
    return (
        f"Queued runs ({use.queued:,}) and new ones will wait; {skipping}. Running attempts "
        f"({use.running:,}) continue."
    )


def _deleted(cancelled: int, is_changed: bool, at: ShowTime) -> str:
    return "deleted" + (f", {plural(cancelled, 'run')} cancelled" if cancelled else "")


def _before_delete(use: JobUse) -> str:
    runs, schedules = (
        plural(use.unfinished, "unfinished run"),
        plural(len(use.schedules), "schedule"),
    )
    return f"It has {schedules} and {runs}."


def _renamed(moved: int, is_changed: bool, at: ShowTime) -> str:
    return f"renamed, {plural(moved, 'unfinished run')} moved"


def _before_rename(job: JobInfo) -> str:
    return "Code that calls it by its present name need not change at the same time."


class JobCommands(Commands):
    """`registry` contains the jobs of this process, which `plan` and `sync_definitions` compare
    with the database."""

    noun = Noun("job", "jobs", JobInfo, JobError, names=SHORT_NAMES)
    registry: Registry = Registry()
    config: Config

    @command
    def list(self, *, order: Order = "name", **filters: Unpack[JobFilters]) -> Plan[Found]:
        """List jobs, sorted by name or by `order`.

        `metadata` has values that must be present, compared as text."""
        return jobs.list_jobs(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: Order = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[JobFilters],
    ) -> Plan[Page[JobInfo]]:
        """One page of that list, with the cursor of the next."""
        return jobs.page_jobs(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: JobName) -> Plan[JobInfo]:
        """Get one job.

        Raises UnknownJob if no application has registered it."""
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
    def use(self, name: JobName) -> Plan[JobUse]:
        """A job with its unfinished runs, and the names of its schedules."""
        found = yield from jobs.find_job(name)
        depths = yield from jobs.read_depths(name)
        schedules = yield from list_schedules(order="name", job=name, system=True)
        return JobUse(found, depths.get(name), [one.name for one in schedules])

    @operation(says=_created, creates=True, status=201, by_hand=("web",))
    def create(
        self,
        name: JobName,
        function_name: FunctionName,
        *,
        reason: Reason = None,
        **settings: Unpack[NewJobKeywords],
    ) -> Plan[JobInfo]:
        """Create a job that calls a SQL function. Python jobs are declared in code.

        `app.jobs.create("close_orders", "public.close_orders")`. Raises JobError if a job cannot
        call the function, and WrongState if there is a job of that name."""
        columns = self._columns({**settings, "function_name": function_name})
        return (yield from jobs.create_job(name, columns, reason=reason, actor=self.actor))

    @operation(says=_updated, by_hand=("web",))
    def update(
        self,
        name: JobName,
        *,
        reset: Reset = False,
        reason: Reason = None,
        version: Version = None,
        **changes: Unpack[JobChangeKeywords],
    ) -> Plan[JobInfo]:
        """Update a job's settings. They take precedence over the code. Queue, priority, maximum
        attempts and default payload apply to new runs; timeout, backoff and log level apply from
        the next attempt.

        Fields in `reset` are reset to the code; True: all of them. Raises PayloadError if the job
        would not take the default payload, and VersionConflict if the job is not at `version`."""
        columns = self._columns(changes)
        if isinstance(payload := columns.get("default_payload"), Mapping):
            columns["default_payload"] = encoded(self.registry, name, payload)
        given = list(RESETTABLE) if reset is True else reset or []
        return (
            yield from jobs.update_job(
                name, columns, reset=given, version=version, reason=reason, actor=self.actor
            )
        )

    @operation(says=_enabled, asks=_before_enable, asks_about="use", is_reason_optional=True)
    def enable(self, name: JobName, reason: Reason = None) -> Plan[bool]:
        """Enable a job: its runs and schedules start again.

        Returns whether it changed: False if it was already enabled."""
        return (yield from self._set_enabled(name, True, reason))

    @operation(says=_disabled, asks=_before_disable, asks_about="use")
    def disable(self, name: JobName, reason: Reason = None) -> Plan[bool]:
        """Disable a job: its runs wait, including new ones, and its schedules skip their times.
        Running attempts continue.

        Returns whether it changed: False if it was already disabled."""
        return (yield from self._set_enabled(name, False, reason))

    @operation(
        says=_deleted,
        asks=_before_delete,
        asks_about="use",
        is_dangerous=True,
        result_name="cancelled_runs",
        example=0,
    )
    def delete(
        self,
        name: JobName,
        *,
        cascade: Cascade = False,
        cancel_open: CancelOpen = False,
        version: Version = None,
        reason: Reason = None,
    ) -> Plan[int]:
        """Delete a job that has no schedules and no unfinished runs. Its history and audit entries
        are kept. Code that still declares it registers it again at its next start.

        Raises WrongState if it has schedules or unfinished runs, and VersionConflict if it is not
        at `version`. Returns the number of its runs that were cancelled."""
        yield from jobs.find_job(name)
        yield from expect_version("job", name, version)
        given = {"name": name, "cascade": cascade, "cancel_open": cancel_open, "reason": reason}
        return int((yield from call("delete_job", **given, actor=self.actor)))

    @operation(
        says=_renamed,
        asks=_before_rename,
        result_name="moved_runs",
        example=12,
        renames_to="new_name",
    )
    def rename(self, name: JobName, new_name: NewName, *, reason: Reason = None) -> Plan[int]:
        """Rename a job with its overrides, schedules, limits and unfinished runs. Enqueues under
        the old name continue to work, and its history is found under both names.

        If a job of the new name exists, the two are merged. Raises WrongState if live workers know
        the job only by its old name. Returns how many unfinished runs were moved."""
        given = {"name": name, "new_name": new_name, "reason": reason, "actor": self.actor}
        return int((yield from call("rename_job", **given)))

    @command
    def plan(self) -> Plan[Drifts]:
        """The differences between this process's code and the database, and who made them."""
        declared = [
            {"tenant": tenant, "name": name, "document": said(columns)}
            for (tenant, name), columns in self.registry.schedules.items()
        ]
        queues = [
            {"name": one.key[-1], "max_waiting": one.value[0], "when_full": one.value[1]}
            for kind in self.registry.kinds
            if kind.noun == "queues"
            for one in kind.said()
        ]
        others = {
            "declared": json.dumps(declared, ensure_ascii=False),
            "queues": json.dumps(queues),
        }
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

    def _columns(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of checked settings."""
        columns = dict(given)
        if "backoff" in columns:
            default = self.config.runs.default_backoff()
            columns["backoff"] = check_backoff(columns["backoff"], default).to_json()
        return columns

    def _set_enabled(self, name: str, enabled: bool, reason: str | None) -> Plan[bool]:
        yield from jobs.find_job(name)
        given = {"job": name, "enabled": enabled, "reason": reason, "actor": self.actor}
        return bool((yield from call("set_job_enabled", **given)))

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
