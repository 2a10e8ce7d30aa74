"""Jobs that fail more than is usual for them."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Minute, Need, began, is_unusual
from rota.model.words import number
from rota.store.plans import Plan
from rota.store.reports import attention
from rota.store.reports.attention import JobFailures


def find(limit: int) -> Plan[Found]:
    found = yield from attention.failing_jobs()
    failing = [it for it in found if is_unusual(it.bad, it.good, it.usual_bad, it.usual_good)]
    if not failing:
        return nothing()
    jobs = [it.job for it in failing[:limit]]
    errors = yield from attention.last_errors(jobs)
    since = yield from _since(jobs)
    needs = [_need(it, error=errors.get(it.job), since=since.get(it.job)) for it in failing[:limit]]
    return Found(needs, len(failing))


def _since(jobs: list[str]) -> Plan[dict[str, datetime | None]]:
    minutes = defaultdict(list)
    for it in (yield from attention.job_minutes(jobs)):
        minutes[it.job].append(Minute(it.at, it.good, it.bad))
    return {job: began(found) for job, found in minutes.items()}


def _need(row: JobFailures, *, error: str | None, since: datetime | None) -> Need:
    job, bad, attempts = row.job, row.bad, row.bad + row.good
    usually = f", usually {_usual(row.usual_bad)}" if row.usual_bad + row.usual_good else ""
    ended = f"{number(bad)} of {number(attempts)} attempts"
    return Need(
        kind=KIND.name,
        state="failed",
        subject="job",
        name=job,
        noun="Job",
        says=f"is failing: {ended} in the last hour{usually}",
        reason=_first_line(error),
        since=since,
        figures={"failed": bad, "attempts": attempts, "usually_failed": row.usual_bad},
        command=command("runs", "list", "--job", job, "--state", "failed"),
    )


def _usual(bad: float) -> str:
    if bad < 1:
        return "less than 1" if bad else "none"
    return number(round(bad))


def _first_line(error: str | None) -> str | None:
    """The exception itself: the last line of a traceback, else the first that says something."""
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return None
    return (lines[-1] if lines[0].startswith("Traceback") else lines[0])[:300]


KIND = Kind("failing_job", "job", "failed", find)
