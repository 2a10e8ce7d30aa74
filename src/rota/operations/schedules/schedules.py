"""Commands about schedules. Shared by Python, the CLI and the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from rota.config import Config
from rota.jobs.encoding import encode_value
from rota.jobs.options import NO_OPTIONS
from rota.jobs.registry import Registry
from rota.jobs.schedule_options import ScheduleArguments, ScheduleKeywords, columns_to_reset
from rota.jobs.sync import with_new
from rota.jobs.tracing import carrying
from rota.model.schedule_info import BackfillInfo, ScheduleInfo, Triggered
from rota.operations.commands import AsyncCommands, SyncCommands, command
from rota.operations.schedules import edits, payloads, plans
from rota.operations.schedules import history as schedule_history
from rota.operations.schedules.next_time import compute_next
from rota.operations.schedules.reads import ScheduleReads
from rota.postgres.audit import because
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars, schedules
from rota.postgres.sessions.pool import Database
from rota.postgres.steps import OnProgress
from rota.postgres.versions import expect_version

T = TypeVar("T")


class ScheduleCommands(ScheduleReads):
    """A schedule belongs to a tenant, or to no tenant (`tenant=""`)."""

    registry: Registry | None = None
    config: Config | None = None

    @command
    def create(
        self,
        name: str,
        job: str,
        *,
        tenant: str = "",
        template: str | None = None,
        reason: str | None = None,
        **arguments: Unpack[ScheduleKeywords],
    ) -> Plan[ScheduleInfo]:
        """Create a schedule. Raises WrongState if the name is taken. A template sets the cron
        expression."""
        payload = arguments.get("payload")
        if payload is not None:
            arguments = {**arguments, "payload": payloads.encoded(self.registry, job, payload)}
        plan = edits.create(name, job, tenant, arguments, actor=self.actor, template=template)
        return self._with_jobs(because(reason, plan))

    @command
    def put(
        self, name: str, job: str, *, tenant: str = "", **arguments: Unpack[ScheduleKeywords]
    ) -> Plan[bool]:
        """Create or update a schedule; returns whether anything was written."""
        known = self.registry.find(job) if self.registry is not None else None
        checked = payloads.declared(known, name, arguments)
        return self._with_jobs(self._put(name, job, tenant, checked))

    @command
    def update(
        self,
        name: str,
        *,
        tenant: str = "",
        job: str | None = None,
        version: int | None = None,
        reason: str | None = None,
        reset: bool | Sequence[str] = (),
        **arguments: Unpack[ScheduleKeywords],
    ) -> Plan[ScheduleInfo]:
        """Change the given fields, at once. Fields in `reset` are reset to the code and follow it
        again; True: all that an operator has changed. Raises VersionConflict if the schedule is
        not at `version`; edits increment it, ticks do not."""
        plan = self._update(name, tenant, job, version, arguments, reset)
        return self._with_jobs(because(reason, plan))

    @command
    def revert(
        self,
        name: str,
        entry_id: int,
        *,
        tenant: str = "",
        version: int | None = None,
        reason: str | None = None,
    ) -> Plan[ScheduleInfo]:
        """Undo one edit by a new edit: `entry_id` is its `id` in `edits`. Raises WrongState if it
        was not an update, and VersionConflict if the schedule is not at `version`."""
        return schedule_history.revert(name, tenant, entry_id, version, reason, actor=self.actor)

    @command
    def delete(
        self,
        name: str,
        *,
        tenant: str = "",
        cancel_waiting: bool = False,
        version: int | None = None,
        reason: str | None = None,
    ) -> Plan[int]:
        """Delete a schedule; ledger, history and audit are kept. Returns how many runs were
        cancelled. Raises VersionConflict if it is not at `version`."""
        return because(reason, self._delete(name, tenant, cancel_waiting, version))

    @command
    def enable(self, name: str, reason: str | None = None, *, tenant: str = "") -> Plan[bool]:
        """Enable a schedule from now on. Returns whether it changed: False if it was already
        enabled."""
        return because(reason, self._set_enabled(name, tenant, True))

    @command
    def disable(self, name: str, reason: str | None = None, *, tenant: str = "") -> Plan[bool]:
        """Skip its times until it is enabled. Returns whether it changed: False if it was already
        disabled."""
        return because(reason, self._set_enabled(name, tenant, False))

    @command
    def pause(
        self,
        name: str,
        reason: str | None = None,
        until: datetime | timedelta | None = None,
        *,
        tenant: str = "",
    ) -> Plan[bool]:
        """Skip its times until it is resumed, or until `until` (a time, or a duration from now). A
        new `until` or reason replaces the old one. Returns whether it changed: False if it was
        already paused like this."""
        return plans.pause(name, tenant, reason, until, actor=self.actor)

    @command
    def resume(
        self, name: str, reason: str | None = None, *, catch_up: bool = False, tenant: str = ""
    ) -> Plan[bool]:
        """Resume from now on; with `catch_up`, the catch-up policy applies to the times of the
        pause. Returns whether it changed: False if it was not paused."""
        return because(reason, plans.resume(name, tenant, catch_up, actor=self.actor))

    @command
    def trigger(
        self,
        name: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tenant: str = "",
        reason: str | None = None,
    ) -> Plan[Triggered]:
        """Enqueue one run now, even while it is paused; the next time does not change."""
        return because(reason, self._trigger(name, payload, tenant))

    @command
    def reschedule(
        self, name: str, at: datetime | timedelta, *, tenant: str = "", reason: str | None = None
    ) -> Plan[None]:
        """Set its next time (a time, or a duration from now); the timing continues afterwards."""
        return because(reason, plans.reschedule(name, tenant, at, actor=self.actor))

    @command
    def backfill(
        self,
        name: str,
        from_at: datetime,
        until_at: datetime,
        *,
        dry_run: bool = False,
        rate: float | None = None,
        priority: int | None = None,
        again: bool = False,
        reason: str | None = None,
        tenant: str = "",
        on_progress: OnProgress | None = None,
    ) -> Plan[BackfillInfo]:
        """Enqueue runs for the nominal times of a past range, at most `rate` per minute, all or
        none. Times that already ran are left out unless `again`. `on_progress` is called with
        the number of newly enqueued runs."""
        options: plans.BackfillOptions = {
            "dry_run": dry_run, "rate": rate, "priority": priority, "again": again,
            "reason": reason, "on_progress": on_progress,
        }  # fmt: skip
        return plans.backfill(name, tenant, from_at, until_at, options, actor=self.actor)

    @command
    def add_template(
        self,
        name: str,
        cron: str,
        description: str = "",
        *,
        version: int | None = None,
        reason: str | None = None,
    ) -> Plan[None]:
        """Add a timing template, or change the cron expression of an existing one. Raises
        VersionConflict if it is not at `version`."""
        plan = edits.add_template(name, cron, description, version=version, actor=self.actor)
        return because(reason, plan)

    @command
    def remove_template(
        self, name: str, *, version: int | None = None, reason: str | None = None
    ) -> Plan[None]:
        """Remove a timing template; schedules created from it are kept. Raises TemplateNotFound if
        there is none."""
        plan = calendars.remove_template(name, version=version, actor=self.actor)
        return because(reason, plan)

    def _delete(
        self, name: str, tenant: str, cancel_waiting: bool, version: int | None
    ) -> Plan[int]:
        yield from schedules.find_schedule(name, tenant)
        yield from expect_version("schedule", name, version, tenant)
        return (
            yield from schedules.delete_schedule(
                name, tenant, cancel_waiting=cancel_waiting, actor=self.actor
            )
        )

    def _set_enabled(self, name: str, tenant: str, enabled: bool) -> Plan[bool]:
        yield from schedules.find_schedule(name, tenant)
        is_changed = yield from schedules.set_enabled(
            name, tenant, enabled=enabled, actor=self.actor
        )
        if is_changed:
            yield from compute_next(name, tenant)
        return is_changed

    def _update(
        self,
        name: str,
        tenant: str,
        job: str | None,
        version: int | None,
        arguments: ScheduleArguments,
        reset: bool | Sequence[str],
    ) -> Plan[ScheduleInfo]:
        changes = edits.changes(arguments, job)
        fields = None if isinstance(reset, bool) else columns_to_reset(reset)
        stored = yield from schedules.lock_schedule(name, tenant)
        yield from expect_version("schedule", name, version, tenant)
        if reset:
            yield from schedules.reset_schedule(name, tenant, fields, actor=self.actor)
            stored = yield from schedules.find_schedule(name, tenant)
        if changes.get("payload") is not None:
            changes["payload"] = payloads.encoded(
                self.registry, job or stored.job, changes["payload"]
            )
        return (yield from edits.update(stored, changes, actor=self.actor))

    def _trigger(
        self, name: str, payload: Mapping[str, Any] | None, tenant: str
    ) -> Plan[Triggered]:
        found = yield from schedules.find_schedule(name, tenant)
        if payload is not None:
            payload = payloads.encoded(self.registry, found.job, payload)
        return (
            yield from schedules.trigger_schedule(
                name,
                tenant,
                payload=_json(payload, "payload"),
                metadata=_json(carrying(NO_OPTIONS).metadata, "metadata"),
                actor=self.actor,
            )
        )

    def _with_jobs(self, plan: Plan[T]) -> Plan[T]:
        """Store jobs that were declared after the database was opened, so that schedules can name
        them."""
        if self.registry is None or self.config is None:
            return plan
        return with_new(self.registry, self.config, plan)

    def _put(self, name: str, job: str, tenant: str, arguments: ScheduleArguments) -> Plan[bool]:
        yield from payloads.check_stored(self.registry, [(name, job, arguments.get("payload"))])
        return (yield from edits.put(name, job, tenant, arguments, actor=self.actor))


class Schedules(ScheduleCommands, AsyncCommands):
    """`app.schedules`"""

    def __init__(
        self,
        database: Database,
        registry: Registry | None = None,
        actor: str | None = None,
        *,
        config: Config | None = None,
    ) -> None:
        super().__init__(database, actor)
        self.registry = registry
        self.config = config

    @property
    def sync(self) -> SyncSchedules:
        return SyncSchedules(self).of_tenant(self.tenant)


class SyncSchedules(ScheduleCommands, SyncCommands):
    """`app.schedules.sync`"""

    def __init__(self, schedules: Schedules) -> None:
        super().__init__(schedules.database, schedules.actor)
        self.registry = schedules.registry
        self.config = schedules.config


def _json(value: Mapping[str, Any] | None, what: str) -> str | None:
    return None if value is None else encode_value(value, what).decode()
