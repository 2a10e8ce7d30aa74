"""Work that no live worker will take."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.model.words import plural
from rota.store.plans import Plan
from rota.store.reports.attention import UnservedWork, unserved_work


def find(limit: int) -> Plan[Found]:
    rows = yield from unserved_work()
    if not rows:
        return nothing()
    if not rows[0].workers:
        return Found([_nobody(rows)], 1)
    return Found([_need(row) for row in rows[:limit]], len(rows))


def _nobody(rows: list[UnservedWork]) -> Need:
    """One thing, however many jobs wait for it."""
    waiting = sum(row.queued for row in rows)
    jobs = {row.job for row in rows}
    return Need(
        kind=KIND.name,
        state="failed",
        subject="worker",
        name="",
        noun="No worker",
        says=f"is live: {plural(waiting, 'run waits', 'runs wait')}",
        reason=f"of {plural(len(jobs), 'job')}: {', '.join(sorted(jobs)[:5])}",
        since=min((row.since for row in rows if row.since), default=None),
        figures={"waiting": waiting},
        command="rota worker",
    )


def _need(row: UnservedWork) -> Need:
    """Either nobody knows the job, or those who do serve other queues."""
    queue = row.queue
    wait = plural(row.queued, "run waits", "runs wait")
    known = f"{plural(row.workers, 'worker')} live, none serves queue {queue} for this job"
    unknown = f"{plural(row.workers, 'worker')} live, none knows this job"
    return Need(
        kind=KIND.name,
        state="failed",
        subject="job",
        name=row.job,
        noun="Job",
        says=f"has no worker: {wait} in queue {queue}",
        reason=known if row.is_known else unknown,
        since=row.since,
        figures={"waiting": row.queued, "queue": queue},
        command=command("workers", "list"),
    )


KIND = Kind("unserved_work", "job", "failed", find)
