"""What one can know of jobs, and do with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Self, TypedDict, Unpack

from rota.admin.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.admin.schedules.edits import said
from rota.admin.schedules.next_time import compute_next
from rota.config import Config
from rota.errors import JobError
from rota.jobs.deliveries import DeclaredDelivery, check_event_delivery
from rota.jobs.encoding import encode_value
from rota.jobs.registry import Registry
from rota.jobs.sync import whole
from rota.jobs.values import (
    check_backoff,
    check_duration,
    check_event_filters,
    check_events,
    check_level,
    check_number,
    check_tags,
    check_text,
)
from rota.model.backoff import Backoff
from rota.model.drift import Drift
from rota.model.job import JobInfo, SqlFunction
from rota.model.list_filters import JobFilters, JobOrder
from rota.model.page import Page
from rota.model.queue import JobDepth
from rota.model.retention import Retention
from rota.store import jobs
from rota.store.plans import Plan

Found = list[JobInfo]
Drifts = list[Drift]
Names = list[str]
Depths = dict[str, JobDepth]


class JobChanges(TypedDict, total=False):
    """What `app.jobs.update` takes, for type checkers."""

    description: str
    queue: str
    priority: int
    max_attempts: int
    timeout: float | timedelta | None
    backoff: Backoff | Mapping[str, Any] | str
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    payload: Mapping[str, Any] | None
    events: Iterable[str]
    event_filters: Mapping[str, Mapping[str, Any]]
    event_delivery: DeclaredDelivery | Mapping[str, Any] | None
    log_level: str | None
    retention: Retention | Mapping[str, Any] | None


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
        """Raises UnknownJob if no application has registered it."""
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
    def update(
        self,
        name: str,
        *,
        reset: Sequence[str] = (),
        reason: str | None = None,
        version: int | None = None,
        **changes: Unpack[JobChanges],
    ) -> Plan[JobInfo]:
        """Override settings of the code; deployments keep them. Queue, priority, maximum attempts
        and default payload apply to new runs, and waiting runs keep theirs; timeout, backoff and
        log level apply from the next attempt. Fields in `reset` are reset to the code. Raises
        VersionConflict if the job is not at `version`."""
        columns = _columns(name, changes, self.config)
        given = [_COLUMNS.get(one, one) for one in reset]
        unknown = sorted(set(given) - set(_COLUMNS.values()))
        if unknown:
            raise JobError(f"unknown job setting {unknown[0]!r}; choose from {', '.join(_COLUMNS)}")
        return jobs.update_job(
            name, columns, reset=given, version=version, reason=reason, actor=self.actor
        )

    @command
    def enable(self, name: str, reason: str | None = None) -> Plan[bool]:
        """Returns whether it changed: False if it was already enabled."""
        return self._set_enabled(name, True, reason)

    @command
    def disable(self, name: str, reason: str | None = None) -> Plan[bool]:
        """Its runs wait, including new ones; its schedules skip their times. Returns whether it
        changed: False if it was already disabled."""
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
    def plan(self) -> Plan[Drifts]:
        """The differences between this process's code and the database, and who made them."""
        declared = [
            {"tenant": tenant, "name": name, "document": said(columns)}
            for (tenant, name), columns in self.registry.schedules.items()
        ]
        told = {"declared": json.dumps(declared, ensure_ascii=False)}
        return jobs.plan_jobs(whole(self.registry, self.config) | told)

    @command
    def sync_definitions(self, force: Sequence[str] = ()) -> Plan[Names]:
        """Store the definitions of this code now, and mark jobs that it no longer declares.
        Operators' changes are kept, except for the jobs in `force`. Returns the names of the
        stored jobs."""
        for name in force:
            self.registry.get(name)
        return self._sync(whole(self.registry, self.config, forced=force))

    def _sync(self, definitions: Mapping[str, Any]) -> Plan[Names]:
        written = yield from jobs.sync_jobs(definitions, actor=self.actor)
        yield from compute_next()
        return written

    def _set_enabled(self, name: str, enabled: bool, reason: str | None) -> Plan[bool]:
        yield from jobs.find_job(name)
        return (yield from jobs.set_job_enabled(name, enabled, reason=reason, actor=self.actor))

    def of(self, registry: Registry, config: Config) -> Self:
        """The same for another registry."""
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


_COLUMNS = {
    "description": "description",
    "queue": "queue",
    "priority": "priority",
    "max_attempts": "max_attempts",
    "timeout": "timeout_seconds",
    "backoff": "backoff",
    "tags": "tags",
    "metadata": "metadata",
    "payload": "default_payload",
    "events": "events",
    "event_filters": "event_filters",
    "event_delivery": "event_delivery",
    "log_level": "log_level",
    "retention": "retention",
}


def _columns(name: str, changes: Mapping[str, Any], config: Config) -> dict[str, Any]:
    try:
        return {_COLUMNS[key]: _check(key, value, config) for key, value in changes.items()}
    except KeyError as error:
        raise JobError(
            f"unknown job setting {error.args[0]!r}; choose from {', '.join(_COLUMNS)}"
        ) from None
    except ValueError as error:
        raise JobError(f'job "{name}": {error}') from None


def _check(key: str, value: Any, config: Config) -> Any:
    match key:
        case "priority":
            return check_number(key, value, 0, 9)
        case "max_attempts":
            return check_number(key, value, 1, 100)
        case "timeout":
            return None if value is None else check_duration(key, value)
        case "log_level":
            return None if value is None else check_level(key, value)
        case "backoff":
            return check_backoff(value, config.runs.default_backoff()).to_json()
        case "tags":
            return list(check_tags(key, value))
        case "events":
            return list(check_events(key, value))
        case "retention":
            return Retention.parse(value).to_json() or None if value else None
        case "metadata" | "payload" | "event_filters" | "event_delivery":
            return _check_object(key, value)
        case _:
            return check_text(key, value, *((100, 1) if key == "queue" else (10_000, 0)))


def _check_object(key: str, value: Any) -> Any:
    if key == "event_filters":
        return check_event_filters(key, value)
    if key == "event_delivery":
        return check_event_delivery(key, value)
    if value is None and key == "payload":
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} must be a mapping, not {value!r}")
    return json.loads(encode_value(value, key))
