"""Reading the jobs that applications have registered, and changing what operators may."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from rota.errors import UnknownJob
from rota.model.drift import Drift
from rota.model.job import JobInfo
from rota.store.plans import Ask, Plan
from rota.store.versions import expect_version


def list_jobs(*, include_system: bool = False) -> Plan[list[JobInfo]]:
    rows = yield Ask("jobs/list", {"name": None, "include_system": include_system})
    return [JobInfo(**row) for row in rows]


def find_job(name: str) -> Plan[JobInfo]:
    rows = yield Ask("jobs/list", {"name": name, "include_system": True})
    if not rows:
        known = yield Ask("jobs/names", {})
        near = get_close_matches(name, [row["name"] for row in known], 1)
        hint = f"did you mean {near[0]}?" if near else "`rota jobs list` shows those that are known"
        raise UnknownJob(f'no job is named "{name}"', hint=hint)
    return JobInfo(**rows[0])


def update_job(
    name: str,
    columns: Mapping[str, Any],
    *,
    reset: Sequence[str],
    version: int | None,
    reason: str | None,
    actor: str | None,
) -> Plan[JobInfo]:
    """Change columns; those to reset go back to what the code says and follow it again."""
    yield from find_job(name)
    yield from expect_version("job", name, version)
    yield Ask("jobs/act_as", {"actor": actor, "reason": reason})
    params = {"name": name, "columns": json.dumps(dict(columns)), "reset": list(reset)}
    yield Ask("jobs/update", params)
    return (yield from find_job(name))


def delete_job(
    name: str, *, cascade: bool, cancel_open: bool, reason: str | None, actor: str | None
) -> Plan[int]:
    """Answers how many runs were cancelled or asked to stop."""
    yield from find_job(name)
    params = {
        "name": name, "cascade": cascade, "cancel_open": cancel_open, "reason": reason,
        "actor": actor,
    }  # fmt: skip
    rows = yield Ask("jobs/delete", params)
    return int(rows[0]["cancelled"])


def set_job_enabled(
    name: str, enabled: bool, *, reason: str | None, actor: str | None
) -> Plan[None]:
    params = {"name": name, "enabled": enabled, "reason": reason, "actor": actor}
    yield Ask("jobs/set_enabled", params)


def plan_jobs(params: Mapping[str, Any]) -> Plan[list[Drift]]:
    """`params` are those of a registration: nothing is written."""
    rows = yield Ask("jobs/plan", dict(params))
    return [Drift(**row) for row in rows]


def sync_jobs(params: Mapping[str, Any], *, actor: str | None) -> Plan[list[str]]:
    """Answers the names of those that were written."""
    yield Ask("jobs/act_as", {"actor": actor, "reason": None})
    rows = yield Ask("jobs/register", dict(params))
    return [row["register_jobs"] for row in rows]
