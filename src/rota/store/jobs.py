"""Reading the jobs that applications have registered."""

from __future__ import annotations

from difflib import get_close_matches

from rota.errors import UnknownJob
from rota.model.job import JobInfo
from rota.store.plans import Ask, Plan


def list_jobs() -> Plan[list[JobInfo]]:
    rows = yield Ask("jobs/list", {"name": None})
    return [JobInfo(**row) for row in rows]


def find_job(name: str) -> Plan[JobInfo]:
    rows = yield Ask("jobs/list", {"name": name})
    if not rows:
        known = yield Ask("jobs/names", {})
        near = get_close_matches(name, [row["name"] for row in known], 1)
        hint = f"did you mean {near[0]}?" if near else "`rota jobs list` shows those that are known"
        raise UnknownJob(f'no job is named "{name}"', hint=hint)
    return JobInfo(**rows[0])
