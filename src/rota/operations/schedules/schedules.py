"""Commands about schedules. Shared by Python, the CLI and the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, Unpack

from rota.config import Config
from rota.errors import TimingError
from rota.jobs.encoding import encode_value
from rota.jobs.options import NO_OPTIONS
from rota.jobs.registry import Registry
from rota.jobs.sync import with_new
from rota.jobs.tracing import carrying
from rota.model.fields import Field, Moment
from rota.model.formatting import plural
from rota.model.schedule_fields import (
    SHORT_NAMES,
    Again,
    DryRun,
    EntryId,
    FillPriority,
    FromAt,
    JobName,
    NewJob,
    Rate,
    Reset,
    ScheduleKeywords,
    ScheduleName,
    ScheduleTenant,
    Template,
    UntilAt,
)
from rota.model.schedule_info import BackfillInfo, ScheduleInfo, Triggered
from rota.operations.commands import AsyncCommands, SyncCommands, command
from rota.operations.instants import read_instant
from rota.operations.registry import Noun, PauseEnd, Reason, ShowTime, Version, operation
from rota.operations.schedules import edits, payloads, plans
from rota.operations.schedules import history as schedule_history
from rota.operations.schedules.next_time import compute_next
from rota.operations.schedules.reads import ScheduleReads
from rota.postgres.audit import because
from rota.postgres.plans import Plan, call
from rota.postgres.schedules import schedules
from rota.postgres.sessions.pool import Database
from rota.postgres.steps import OnProgress
from rota.postgres.versions import expect_version

T = TypeVar("T")


NextTime = Annotated[
    Moment | None,
    Field(
        "Next run time: a time, or a duration from now.",
        "30min",
        metavar="30m|TIME",
        none_means="the time that its timing gives",
    ),
]
CatchUpPause = Annotated[
    bool,
    Field(
        "Treat times skipped by the pause as missed: the catch-up policy applies.", True, "Catch up"
    ),
]
RunPayload = Annotated[
    Mapping[str, Any] | None,
    Field("Payload for this run. Default: the schedule's.", {"user_id": 8}),
]
CancelWaiting = Annotated[
    bool, Field("Cancel its runs that have not started.", True, "Cancel its waiting runs")
]


def _created(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    return f"created: {it.timing}"


def _updated(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    return f"updated: {it.timing}"


def _reverted(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    return f"has its values from before the edit: {it.timing}"


def _backfilled(done: BackfillInfo, is_changed: bool, at: ShowTime) -> str:
    out = f", {done.left_out:,} already ran" if done.left_out else ""
    what = "would be enqueued" if done.is_dry_run else "enqueued"
    return f"backfilled: {plural(len(done.times), 'run')} {what}{out}"


def _enabled(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    return "enabled" if is_changed else "was already enabled"


def _before_enable(it: ScheduleInfo) -> str:
    return "Times while it was disabled stay recorded as skipped."


def _disabled(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    return "disabled" if is_changed else "was already disabled"


def _paused(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    end = at(it.paused_until) if it.paused_until else "it is resumed"
    return f"{'paused' if is_changed else 'was already paused'} until {end}"


def _before_pause(it: ScheduleInfo) -> str:
    return "Its times are skipped, and recorded when it is resumed. Running attempts continue."


def _resumed(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    return "resumed" if is_changed else "was not paused"


def _triggered(made: Triggered, is_changed: bool, at: ShowTime) -> str:
    return f"enqueued run {made.run_id} of {made.job}"


def _before_trigger(it: ScheduleInfo) -> str:
    return f"Enqueues one run of {it.job}."


def _rescheduled(it: ScheduleInfo, is_changed: bool, at: ShowTime) -> str:
    # A paused or disabled schedule has no next time, and keeps the instant that was set.
    next_at = it.moved_to or it.next_run_at
    unless = f", unless it is still {it.state} then" if it.state in ("paused", "disabled") else ""
    return f"runs next at {at(next_at)}{unless}" if next_at else "rescheduled"


def _before_reschedule(it: ScheduleInfo) -> str:
    return "Times before that are superseded."


def _deleted(cancelled: int, is_changed: bool, at: ShowTime) -> str:
    return "deleted" + (f", {plural(cancelled, 'waiting run')} cancelled" if cancelled else "")


def _switched(plan: Plan[Any], name: str, tenant: str) -> Plan[bool]:
    """Compute the next time of a schedule if the plan, which calls a function, changed it."""
    is_changed = bool((yield from plan))
    if is_changed:
        yield from compute_next(name, tenant)
    return is_changed


class ScheduleCommands(ScheduleReads):
    """A schedule belongs to a tenant, or to no tenant (`tenant=""`)."""

    noun = Noun("schedule", "schedules", ScheduleInfo, TimingError, names=SHORT_NAMES)
    registry: Registry | None = None
    config: Config | None = None

    @operation(says=_created, creates=True, status=201, by_hand=("web",))
    def create(
        self,
        name: ScheduleName,
        job: JobName,
        *,
        tenant: ScheduleTenant = "",
        template: Template = None,
        reason: Reason = None,
        **settings: Unpack[ScheduleKeywords],
    ) -> Plan[ScheduleInfo]:
        """Create a schedule with one timing: a cron expression or a template, an interval, one
        time, or the start of the application.

        Raises WrongState if the name is taken. A template sets the cron expression."""
        given: Mapping[str, Any] = settings
        payload = given.get("payload")
        if payload is not None:
            given = {**given, "payload": payloads.encoded(self.registry, job, payload)}
        plan = edits.create(name, job, tenant, given, actor=self.actor, template=template)
        return self._with_jobs(because(reason, plan))

    @command
    def put(
        self, name: str, job: str, *, tenant: str = "", **settings: Unpack[ScheduleKeywords]
    ) -> Plan[bool]:
        """Create or update a schedule; returns whether anything was written."""
        known = self.registry.find(job) if self.registry is not None else None
        checked = payloads.declared(known, name, settings)
        return self._with_jobs(self._put(name, job, tenant, checked))

    @operation(says=_updated, by_hand=("web",))
    def update(
        self,
        name: ScheduleName,
        *,
        tenant: ScheduleTenant = "",
        job: NewJob = None,
        version: Version = None,
        reason: Reason = None,
        reset: Reset = False,
        **settings: Unpack[ScheduleKeywords],
    ) -> Plan[ScheduleInfo]:
        """Update the given fields, effective at once. The audit trail keeps old and new values.

        Fields in `reset` are reset to the code and follow it again; True: all that an operator has
        changed. Raises VersionConflict if the schedule is not at `version`; edits increment it,
        ticks do not."""
        plan = self._update(name, tenant, job, version, settings, reset)
        return self._with_jobs(because(reason, plan))

    @operation(says=_reverted, by_hand=("web",))
    def revert(
        self,
        name: ScheduleName,
        entry_id: EntryId,
        *,
        tenant: ScheduleTenant = "",
        version: Version = None,
        reason: Reason = None,
    ) -> Plan[ScheduleInfo]:
        """Revert one edit of a schedule. The revert is recorded as a new edit.

        `entry_id` is the `id` of the edit in `edits`. Raises WrongState if it was not an update,
        and VersionConflict if the schedule is not at `version`."""
        return schedule_history.revert(name, tenant, entry_id, version, reason, actor=self.actor)

    @operation(says=_enabled, asks=_before_enable, is_reason_optional=True)
    def enable(
        self, name: ScheduleName, reason: Reason = None, *, tenant: ScheduleTenant = ""
    ) -> Plan[bool]:
        """Enable a schedule from now on.

        Returns whether it changed: False if it was already enabled."""
        return because(reason, self._set_enabled(name, tenant, True))

    @operation(says=_disabled, is_reason_optional=True)
    def disable(
        self, name: ScheduleName, reason: Reason = None, *, tenant: ScheduleTenant = ""
    ) -> Plan[bool]:
        """Disable a schedule: its times are skipped until it is enabled.

        Returns whether it changed: False if it was already disabled."""
        return because(reason, self._set_enabled(name, tenant, False))

    @operation(says=_paused, asks=_before_pause)
    def pause(
        self,
        name: ScheduleName,
        reason: Reason = None,
        until: PauseEnd = None,
        *,
        tenant: ScheduleTenant = "",
    ) -> Plan[bool]:
        """Pause a schedule: its times are skipped until it is resumed. For a paused schedule, a new
        time or reason replaces the old one.

        Returns whether it changed: False if it was already paused like this."""
        yield from schedules.find_schedule(name, tenant)
        end = None if until is None else (yield from read_instant(until, "until"))
        paused = call(
            "pause_schedule", name=name, tenant=tenant, reason=reason, until=end, actor=self.actor
        )
        return (yield from _switched(paused, name, tenant))

    @operation(says=_resumed, is_reason_optional=True)
    def resume(
        self,
        name: ScheduleName,
        reason: Reason = None,
        *,
        catch_up: CatchUpPause = False,
        tenant: ScheduleTenant = "",
    ) -> Plan[bool]:
        """Resume a paused schedule from now on.

        Returns whether it changed: False if it was not paused."""
        resumed = call(
            "resume_schedule", name=name, tenant=tenant, catch_up=catch_up, actor=self.actor
        )
        return because(reason, _switched(resumed, name, tenant))

    @operation(says=_triggered, asks=_before_trigger, is_reason_optional=True, status=201)
    def trigger(
        self,
        name: ScheduleName,
        payload: RunPayload = None,
        *,
        reason: Reason = None,
        tenant: ScheduleTenant = "",
    ) -> Plan[Triggered]:
        """Run a schedule now, even if it is paused. Its next run time does not change."""
        return because(reason, self._trigger(name, payload, tenant))

    @operation(says=_rescheduled, asks=_before_reschedule, is_reason_optional=True)
    def reschedule(
        self,
        name: ScheduleName,
        at: NextTime,
        *,
        reason: Reason = None,
        tenant: ScheduleTenant = "",
    ) -> Plan[ScheduleInfo]:
        """Move the next run of a schedule, or undo that. Later runs keep their usual times."""
        return because(reason, self._reschedule(name, tenant, at))

    @operation(
        says=_deleted,
        is_dangerous=True,
        is_reason_optional=True,
        result_name="cancelled_runs",
        example=0,
    )
    def delete(
        self,
        name: ScheduleName,
        *,
        cancel_waiting: CancelWaiting = False,
        version: Version = None,
        reason: Reason = None,
        tenant: ScheduleTenant = "",
    ) -> Plan[int]:
        """Delete a schedule. Its history, ledger and audit entries are kept.

        Raises VersionConflict if it is not at `version`. Returns the number of its runs that were
        cancelled."""
        return because(reason, self._delete(name, tenant, cancel_waiting, version))

    @operation(says=_backfilled, by_hand=("web",))
    def backfill(
        self,
        name: ScheduleName,
        from_at: FromAt,
        until_at: UntilAt = None,
        *,
        dry_run: DryRun = False,
        rate: Rate = None,
        priority: FillPriority = None,
        again: Again = False,
        reason: Reason = None,
        tenant: ScheduleTenant = "",
        on_progress: OnProgress | None = None,
    ) -> Plan[BackfillInfo]:
        """Enqueue runs for the scheduled times of a past period. The ledger keeps the original
        decisions.

        All of them or none are enqueued, at most `rate` per minute. Times that already ran are left
        out unless `again`. `on_progress` is called with the number of newly enqueued runs."""
        options = plans.BackfillOptions(dry_run, rate, priority, again, reason, on_progress)
        return plans.backfill(name, tenant, from_at, until_at, options, actor=self.actor)

    def _delete(
        self, name: str, tenant: str, cancel_waiting: bool, version: int | None
    ) -> Plan[int]:
        yield from schedules.find_schedule(name, tenant)
        yield from expect_version("schedule", name, version, tenant)
        given = {"name": name, "tenant": tenant, "cancel_waiting": cancel_waiting}
        return int((yield from call("delete_schedule", **given, actor=self.actor)))

    def _set_enabled(self, name: str, tenant: str, enabled: bool) -> Plan[bool]:
        yield from schedules.find_schedule(name, tenant)
        done = call(
            "set_schedule_enabled", name=name, tenant=tenant, enabled=enabled, actor=self.actor
        )
        return (yield from _switched(done, name, tenant))

    def _reschedule(self, name: str, tenant: str, at: Moment | None) -> Plan[ScheduleInfo]:
        yield from schedules.find_schedule(name, tenant)
        instant = None if at is None else (yield from read_instant(at, "at"))
        yield from call("reschedule", name=name, at=instant, tenant=tenant, actor=self.actor)
        if at is None:
            yield from compute_next(name, tenant)
        return (yield from schedules.find_schedule(name, tenant))

    def _update(
        self,
        name: str,
        tenant: str,
        job: str | None,
        version: int | None,
        settings: Mapping[str, Any],
        reset: bool | list[str],
    ) -> Plan[ScheduleInfo]:
        changes = edits.changes(settings, job)
        fields = None if isinstance(reset, bool) else reset
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
        metadata = _json(carrying(NO_OPTIONS).metadata, "metadata")
        given = {"payload": _json(payload, "payload"), "metadata": metadata}
        return (yield from schedules.trigger_schedule(name, tenant, **given, actor=self.actor))

    def _with_jobs(self, plan: Plan[T]) -> Plan[T]:
        """Store jobs that were declared after the database was opened, so that schedules can name
        them."""
        if self.registry is None or self.config is None:
            return plan
        return with_new(self.registry, self.config, plan)

    def _put(self, name: str, job: str, tenant: str, settings: Mapping[str, Any]) -> Plan[bool]:
        yield from payloads.check_stored(self.registry, [(name, job, settings.get("payload"))])
        return (yield from edits.put(name, job, tenant, settings, actor=self.actor))


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
