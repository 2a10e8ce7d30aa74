"""Creates and changes schedules: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rota.errors import TimingError, WrongState
from rota.jobs.schedule_options import (
    DEFAULTS,
    ScheduleArguments,
    check_timing,
    columns,
    complete,
    refuse_ignored,
)
from rota.model.schedule_info import ScheduleInfo
from rota.operations.schedules.next_time import compute_next
from rota.operations.schedules.requirements import check_requires
from rota.postgres.jobs import find_job, present_name
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars, schedules
from rota.timing.timing import Timing

_KINDS = ("cron", "interval_seconds", "run_at", "init")


def whole(name: str, job: str, arguments: ScheduleArguments) -> dict[str, Any]:
    """Return all columns of a complete schedule."""
    if not name.strip() or len(name) > 200:
        raise TimingError(f"the name of a schedule must have 1 to 200 characters, not {name!r}")
    given = complete(columns(arguments)) | {"job": job}
    check_timing(given)
    refuse_ignored(given, given)
    return given


def changes(arguments: ScheduleArguments, job: str | None) -> dict[str, Any]:
    """Return the columns of an update. Another kind of timing replaces the previous one, and resets
    the options that only the previous kind has."""
    given = columns(arguments) | ({} if job is None else {"job": job})
    if any(given.get(kind) is not None for kind in _KINDS):
        given = dict.fromkeys(_KINDS) | given
        if given["cron"] is None:
            given = {name: DEFAULTS[name] for name in ("has_seconds", "gap", "fold")} | given
    if given.get("cron", "") is None and given.get("interval_seconds") is None:
        given.setdefault("every_from", "start")
    if "is_enabled" in given and given["is_enabled"] is None:
        del given["is_enabled"]
    return given


def create(
    name: str,
    job: str,
    tenant: str,
    arguments: ScheduleArguments,
    *,
    actor: str | None,
    template: str | None = None,
) -> Plan[ScheduleInfo]:
    if template is not None:
        if any(arguments.get(kind) is not None for kind in ("cron", "every", "at", "init")):
            raise TimingError(
                "a template sets the timing: do not combine it with cron, every, at or init"
            )
        arguments = arguments | {"cron": (yield from calendars.find_template(template)).cron}
    given = whole(name, (yield from _known_job(job)), arguments)
    yield from check_requires([(tenant, name, given)])
    if not (yield from schedules.create_schedule(name, tenant, given, actor=actor)):
        raise WrongState(f'schedule "{name}" already exists', hint="update it instead")
    yield from compute_next(name, tenant)
    return (yield from schedules.find_schedule(name, tenant))


def put(
    name: str, job: str, tenant: str, arguments: ScheduleArguments, *, actor: str | None
) -> Plan[bool]:
    given = whole(name, job, arguments)
    return (yield from put_whole(name, tenant, given, actor=actor))


def said(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if (key, value) != ("is_enabled", None)}


def put_whole(name: str, tenant: str, given: Mapping[str, Any], *, actor: str | None) -> Plan[bool]:
    """Store a schedule whose columns are already checked."""
    yield from check_requires([(tenant, name, given)])
    is_written = yield from schedules.put_schedule(name, tenant, said(given), actor=actor)
    if is_written:
        yield from compute_next(name, tenant)
    return is_written


def update(
    stored: ScheduleInfo, given: Mapping[str, Any], *, actor: str | None
) -> Plan[ScheduleInfo]:
    if "job" in given:
        given = {**given, "job": (yield from _known_job(given["job"]))}
    merged = _as_columns(stored) | dict(given)
    check_timing(merged)
    refuse_ignored(given, merged)
    if given.get("requires"):
        yield from check_requires([(stored.tenant, stored.name, merged)])
    yield from schedules.update_schedule(stored.id, given, actor=actor)
    yield from compute_next(stored.name, stored.tenant)
    return (yield from schedules.find_schedule(stored.name, stored.tenant))


def _known_job(name: str) -> Plan[str]:
    """Return the present name of a job that exists."""
    return (yield from find_job((yield from present_name(name)))).name


def _as_columns(stored: ScheduleInfo) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(stored).items()
    }


def add_template(
    name: str, cron: str, description: str, *, version: int | None, actor: str | None
) -> Plan[None]:
    if not name.strip():
        raise TimingError("a template needs a name")
    Timing.of(cron=cron)
    yield from calendars.add_template(name, cron, description, version=version, actor=actor)
