"""Jobs that fail more than is usual for them."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Minute, Need, began, is_unusual
from rota.model.words import number
from rota.store.plans import Ask, Plan


def find(limit: int) -> Plan[Found]:
    rows = yield Ask("attention/failing_jobs", {})
    failing = [
        row
        for row in rows
        if is_unusual(row["bad"], row["good"], row["usual_bad"], row["usual_good"])
    ]
    if not failing:
        return nothing()
    jobs = [row["job"] for row in failing[:limit]]
    errors = yield Ask("attention/last_errors", {"jobs": jobs})
    last = {row["job"]: row["last_error"] for row in errors}
    since = yield from _since(jobs)
    needs = [
        _need(**row, error=last.get(row["job"]), since=since.get(row["job"]))
        for row in failing[:limit]
    ]
    return Found(needs, len(failing))


def _since(jobs: list[str]) -> Plan[dict[str, datetime | None]]:
    rows = yield Ask("attention/minutes", {"jobs": jobs})
    minutes = defaultdict(list)
    for row in rows:
        minutes[row["job"]].append(Minute(row["at"], row["good"], row["bad"]))
    return {job: began(found) for job, found in minutes.items()}


def _need(
    *,
    job: str,
    bad: int,
    good: int,
    usual_bad: float,
    usual_good: float,
    error: str | None,
    since: datetime | None,
) -> Need:
    usually = f", usually {_usual(usual_bad)}" if usual_bad + usual_good else ""
    ended = f"{number(bad)} of {number(bad + good)} attempts"
    return Need(
        kind=KIND.name,
        state="failed",
        subject="job",
        name=job,
        noun="Job",
        says=f"is failing: {ended} in the last hour{usually}",
        reason=_first_line(error),
        since=since,
        figures={"failed": bad, "attempts": bad + good, "usually_failed": usual_bad},
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
