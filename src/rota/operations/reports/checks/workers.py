"""Workers: whether any are live, and whether they renew their leases in time."""

from __future__ import annotations

from collections.abc import Iterator

from rota.model.finding import Finding, graded
from rota.model.formatting import duration, number, plural
from rota.model.metrics import FleetHealth
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports.doctor import LeaseState
from rota.postgres.reports.metrics import read_health


def check() -> Plan[list[Finding]]:
    (row,) = yield from rows_of(LeaseState)
    stand = yield from read_health()
    return [_live(row, stand), *_lease(row), *_troubles(stand), *_releases(row)]


def _live(row: LeaseState, stand: FleetHealth) -> Finding:
    awake = stand.live + stand.failing + stand.stuck
    if not awake and stand.asleep:
        return Finding(
            "workers",
            "ok",
            "All workers are asleep",
            figure=number(stand.asleep),
            detail="They wake up when something is due, and then find newly enqueued runs.",
        )
    if not awake:
        return Finding(
            "workers",
            "bad",
            "No worker is live",
            figure="0",
            detail="No runs are executed, no schedules are processed, nothing is cleaned up.",
            advice="start a worker.",
            commands=["rota worker"],
        )
    slots = f"{plural(row.slots, 'slot')}"
    return Finding("workers", "ok", "Live workers", figure=f"{number(stand.live)}, {slots}")


def _lease(row: LeaseState) -> Iterator[Finding]:
    """Check the lease that expires first. A worker renews it at each third of its duration."""
    left, seconds = row.lease_left, row.lease_seconds
    if left is None or seconds is None:
        return
    if left <= 0:
        yield Finding(
            "lease",
            "bad",
            f"The lease of {row.oldest_name} has expired",
            figure=f"{duration(-left)} ago",
            limit=duration(seconds),
            detail="Its runs wait until another worker declares it lost.",
            advice="check whether its process is alive, and start another worker.",
            commands=["rota workers list"],
        )
    elif left < seconds / 3:
        yield Finding(
            "lease",
            "warn",
            f"{row.oldest_name} renews its lease late",
            figure=f"{duration(left)} left",
            limit=duration(seconds / 3),
            detail="If it does not recover, its runs go back to the queue.",
            advice="check its machine: a blocked event loop, no CPU, or no database connection.",
            commands=["rota workers list"],
        )
    else:
        yield Finding("lease", "ok", "Oldest lease", figure=f"{duration(left)} left")


def _troubles(stand: FleetHealth) -> Iterator[Finding]:
    words = ("stuck", "failing", "lost")
    troubles = {word: count for word in words if (count := getattr(stand, word))}
    summary = ", ".join(f"{number(count)} {word}" for word, count in troubles.items())
    yield graded(
        "worker_troubles",
        "warn" if troubles else "ok",
        "Workers stuck, failing or lost",
        "Workers have problems",
        figure=summary or "0",
        detail="A stuck one has a handler that blocks its event loop; a failing one cannot do part "
        "of its work; lost ones of the last hour were killed, or cut off from the database.",
        advice="find out which ones, and why.",
        commands=["rota workers list", "rota attention"],
    )


def _releases(row: LeaseState) -> Iterator[Finding]:
    versions = sorted(version for version in row.versions if version)
    if len(versions) > 1:
        yield Finding(
            "releases",
            "warn",
            "Workers run different releases of Rota",
            figure=", ".join(versions),
            detail="This is normal during a deployment, but not afterwards.",
            advice="finish the deployment.",
            commands=["rota workers list"],
        )
    elif versions:
        yield Finding("releases", "ok", "Release of all workers", figure=versions[0])
