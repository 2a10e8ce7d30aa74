"""Runs that go on for longer than is usual for their job."""

from __future__ import annotations

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import LEAST_SLOW_SECONDS, Need, is_slow
from rota.model.histogram import quantiles
from rota.model.words import duration
from rota.store.plans import Plan
from rota.store.reports.attention import SlowRun, slow_runs

_SHARES = (0.99, 0.5)


def find(limit: int) -> Plan[Found]:
    rows = yield from slow_runs(LEAST_SLOW_SECONDS)
    needs = [need for row in rows if (need := _need(row)) is not None]
    return Found(needs[:limit], len(needs))


def _need(row: SlowRun) -> Need | None:
    longest = row.longest_ms / 1000
    p99, p50 = quantiles(row.histogram, row.attempts, _SHARES, longest)
    if not is_slow(row.seconds, row.attempts, p99, longest):
        return None
    run = str(row.id)
    place = f" on {row.worker}" if row.worker else ""
    usual = f"usually {duration(p50)}, p99 {duration(p99)}"
    return Need(
        kind=KIND.name,
        state="warn",
        subject="run",
        name=run,
        noun="Run",
        says=f"of {row.job} has been running for {duration(row.seconds)}",
        reason=f"{usual} · attempt {row.attempt} of {row.max_attempts}{place}",
        since=row.started_at,
        figures={
            "job": row.job,
            "seconds": row.seconds,
            "p50_seconds": p50,
            "p99_seconds": p99,
        },
        command=command("runs", "show", run),
    )


KIND = Kind("slow_run", "run", "warn", find)
