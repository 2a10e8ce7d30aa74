"""Jobs, runs and workers in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from rota.hints import ShellCommand
from rota.model.attention import Minute, began, is_slow, is_unusual
from rota.model.formatting import duration, number, plural
from rota.model.histogram import quantiles
from rota.operations.command_line import line_of
from rota.operations.reports.needs.kind import AttentionText
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports.attention import (
    JobFailures,
    JobMinute,
    RefusedPayloads,
    SlowRun,
    TroubledWorker,
    UnservedWork,
    last_errors,
)

_SHARES = (0.99, 0.5)


def unserved(limit: int) -> Plan[tuple[Sequence[AttentionText], int]]:
    """Read runs that no live worker will claim."""
    rows = yield from rows_of(UnservedWork)
    if rows and not rows[0].workers:
        return [_nobody(rows)], 1
    return [_unserved(row) for row in rows[:limit]], len(rows)


def _nobody(rows: list[UnservedWork]) -> AttentionText:
    """Return one item, however many jobs wait for a worker."""
    waiting = sum(row.queued for row in rows)
    jobs = {row.job for row in rows}
    return AttentionText(
        "",
        f"is live: {plural(waiting, 'run waits', 'runs wait')}",
        f"of {plural(len(jobs), 'job')}: {', '.join(sorted(jobs)[:5])}",
        min((row.since for row in rows if row.since), default=None),
        ShellCommand(("worker",)).line,
        {"waiting": waiting},
        subject="worker",
        noun="No worker",
    )


def _unserved(row: UnservedWork) -> AttentionText:
    """Report that no worker knows the job, or that those that do serve other queues."""
    why = f"none serves queue {row.queue} for this job" if row.is_known else "none knows this job"
    return AttentionText(
        row.job,
        f"has no worker: {plural(row.queued, 'run waits', 'runs wait')} in queue {row.queue}",
        f"{plural(row.workers, 'worker')} live, {why}",
        row.since,
        line_of("workers", "list"),
        {"waiting": row.queued, "queue": row.queue},
    )


def refused(row: RefusedPayloads) -> AttentionText:
    held = plural(row.runs, "run is", "runs are")
    return AttentionText(
        row.job,
        f"needs another release: {held} held, because no live worker accepts the payload",
        row.reason,
        row.since,
        line_of("runs", "list", job=row.job, state="queued"),
        {"held": row.runs},
    )


def failing(limit: int) -> Plan[tuple[Sequence[AttentionText], int]]:
    """Read jobs that fail more than usual."""
    found = yield from rows_of(JobFailures)
    rows = [row for row in found if is_unusual(row.bad, row.good, row.usual_bad, row.usual_good)]
    if not rows:
        return [], 0
    jobs = [row.job for row in rows[:limit]]
    errors = yield from last_errors(jobs)
    minutes = defaultdict(list)
    for minute in (yield from rows_of(JobMinute, jobs=list(jobs))):
        minutes[minute.job].append(Minute(minute.at, minute.good, minute.bad))
    texts = [_failing(row, errors.get(row.job), began(minutes[row.job])) for row in rows[:limit]]
    return texts, len(rows)


def _failing(row: JobFailures, error: str | None, since: datetime | None) -> AttentionText:
    bad, attempts = row.bad, row.bad + row.good
    usually = f", usually {_usual(row.usual_bad)}" if row.usual_bad + row.usual_good else ""
    return AttentionText(
        row.job,
        f"is failing: {number(bad)} of {number(attempts)} attempts in the last hour{usually}",
        _first_line(error),
        since,
        line_of("errors", "list", job=row.job),
        {"failed": bad, "attempts": attempts, "usually_failed": row.usual_bad},
    )


def _usual(bad: float) -> str:
    if bad < 1:
        return "less than 1" if bad else "none"
    return number(round(bad))


def _first_line(error: str | None) -> str | None:
    """Return the exception: the last line of a traceback, otherwise the first line that is not
    empty."""
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return None
    return (lines[-1] if lines[0].startswith("Traceback") else lines[0])[:300]


def slow(row: SlowRun) -> AttentionText | None:
    """Report a run that takes longer than usual for its job."""
    longest = row.longest_ms / 1000
    p99, p50 = quantiles(row.histogram, row.attempts, _SHARES, longest)
    if not is_slow(row.seconds, row.attempts, p99, longest):
        return None
    place = f" on {row.worker}" if row.worker else ""
    usual = f"usually {duration(p50)}, p99 {duration(p99)}"
    return AttentionText(
        str(row.id),
        f"of {row.job} has been running for {duration(row.seconds)}",
        f"{usual} · attempt {row.attempt} of {row.max_attempts}{place}",
        row.started_at,
        line_of("runs", "get", row.id),
        {"job": row.job, "seconds": row.seconds, "p50_seconds": p50, "p99_seconds": p99},
    )


def troubled(row: TroubledWorker) -> AttentionText:
    state, says, reason = _trouble(row)
    return AttentionText(
        row.name,
        says,
        f"{reason} · {row.host}, process {row.pid}",
        _since(row),
        line_of("workers", "get", row.id),
        {"worker": row.id},
        state=state,
    )


def _since(row: TroubledWorker) -> datetime | None:
    if row.state == "lost":
        return row.ended_at
    return row.acted_at if row.is_stuck and not row.is_silent else row.heartbeat_at


def _trouble(row: TroubledWorker) -> tuple[str, str, str]:
    if row.state == "lost":
        return "lost", "was lost", "its lease expired, and its runs went back to the queue"
    if row.is_silent:
        why = "its lease expired, and no other worker is live to rescue its runs"
        return "lost", "is silent", why
    if row.is_stuck:
        by = f"run {row.run} of {row.job}" if row.run else "a handler"
        return "warn", "is stuck", f"its event loop is blocked, most likely by {by}"
    return "warn", "is failing", str(row.trouble)
