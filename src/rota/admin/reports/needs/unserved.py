"""Work that no live worker will take."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command, nothing
from rota.model.attention import Need
from rota.model.words import number, plural
from rota.store.plans import Ask, Plan, Rows


def find(limit: int) -> Plan[Found]:
    rows = yield Ask("attention/unserved", {})
    if not rows:
        return nothing()
    if not rows[0]["workers"]:
        return Found([_nobody(rows)], 1)
    return Found([_need(**row) for row in rows[:limit]], len(rows))


def _nobody(rows: Rows) -> Need:
    """One thing, however many jobs wait for it."""
    waiting = sum(row["queued"] for row in rows)
    jobs = {row["job"] for row in rows}
    return Need(
        kind=KIND.name,
        state="failed",
        subject="worker",
        name="",
        noun="No worker",
        says=f"is live: {plural(waiting, 'run waits', 'runs wait')}",
        reason=f"of {plural(len(jobs), 'job')}: {', '.join(sorted(jobs)[:5])}",
        since=min((row["since"] for row in rows if row["since"]), default=None),
        figures={"waiting": waiting},
        command="rota worker",
    )


def _need(
    *, job: str, queue: str, queued: int, workers: int, is_known: bool, since: object
) -> Need:
    """Either nobody knows the job, or those who do serve other queues."""
    wait = plural(queued, "run waits", "runs wait")
    known = f"{number(workers)} live, none of them serves queue {queue} for this job"
    return Need(
        kind=KIND.name,
        state="failed",
        subject="job",
        name=job,
        noun="Job",
        says=f"has no worker: {wait} in queue {queue}",
        reason=known if is_known else f"{plural(workers, 'worker')} live, none knows this job",
        since=since,  # type: ignore[arg-type]
        figures={"waiting": queued, "queue": queue},
        command=command("workers", "list"),
    )


KIND = Kind("unserved_work", "job", "failed", find)
