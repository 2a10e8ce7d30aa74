"""Creates and changes schedules: everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rota.errors import TimingError, WrongState
from rota.jobs.schedule_options import (
    check_timing,
    columns,
    complete,
    refuse_ignored,
    stored,
)
from rota.model.schedule_fields import KINDS, OF_CRON, defaults
from rota.model.schedule_info import ScheduleInfo
from rota.operations.schedules.next_time import compute_next
from rota.operations.schedules.requirements import check_requires
from rota.postgres.jobs import find_job, present_name
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars, schedules


def whole(name: str, job: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all columns of a complete schedule."""
    if not name.strip() or len(name) > 200:
        raise TimingError(
            f"the name of a schedule must have 1 to 200 characters, not {name!r}", field="name"
        )
    given = complete(columns(settings)) | {"job": job}
    check_timing(given)
    refuse_ignored(given, given)
    return given


def changes(settings: Mapping[str, Any], job: str | None) -> dict[str, Any]:
    """Return the columns of an update. Another kind of timing replaces the previous one, and resets
    the options that only the previous kind has."""
    given = stored(settings) | ({} if job is None else {"job": job})
    if any(given.get(kind) is not None for kind in KINDS):
        given = dict.fromkeys(KINDS) | given
        if given["cron"] is None:
            given = {name: defaults()[name] for name in OF_CRON} | given
    if given.get("cron", "") is None and given.get("interval_seconds") is None:
        given.setdefault("every_from", "start")
    if "is_enabled" in given and given["is_enabled"] is None:
        del given["is_enabled"]
    return given


def create(
    name: str,
    job: str,
    tenant: str,
    settings: Mapping[str, Any],
    *,
    actor: str | None,
    template: str | None = None,
) -> Plan[ScheduleInfo]:
    if template is not None:
        if any(settings.get(kind) is not None for kind in KINDS):
            raise TimingError(
                "a template sets the timing: do not combine it with cron, interval_seconds, "
                "run_at or init",
                field="template",
            )
        settings = {**settings, "cron": (yield from calendars.find_template(template)).cron}
    given = whole(name, (yield from _known_job(job)), settings)
    yield from check_requires([(tenant, name, given)])
    if not (yield from schedules.create_schedule(name, tenant, given, actor=actor)):
        raise WrongState(
            f'schedule "{name}" already exists', hint="update it instead", field="name"
        )
    yield from compute_next(name, tenant)
    return (yield from schedules.find_schedule(name, tenant))


def put(
    name: str, job: str, tenant: str, settings: Mapping[str, Any], *, actor: str | None
) -> Plan[bool]:
    given = whole(name, job, settings)
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
    found: ScheduleInfo, given: Mapping[str, Any], *, actor: str | None
) -> Plan[ScheduleInfo]:
    if "job" in given:
        given = {**given, "job": (yield from _known_job(given["job"]))}
    merged = _as_columns(found) | dict(given)
    check_timing(merged)
    refuse_ignored(given, merged)
    if given.get("requires"):
        yield from check_requires([(found.tenant, found.name, merged)])
    yield from schedules.update_schedule(found.id, given, actor=actor)
    yield from compute_next(found.name, found.tenant)
    return (yield from schedules.find_schedule(found.name, found.tenant))


def _known_job(name: str) -> Plan[str]:
    """Return the present name of a job that exists."""
    return (yield from find_job((yield from present_name(name)))).name


def _as_columns(found: ScheduleInfo) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(found).items()
    }
