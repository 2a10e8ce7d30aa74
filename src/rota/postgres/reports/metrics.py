"""Reads metrics, and the values that the live stream compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.model.histogram import unpack
from rota.model.metrics import (
    AttemptMetric,
    CapMetric,
    Changes,
    Counter,
    FleetHealth,
    LimitMetric,
    Metrics,
    OperatorAction,
    TenantMetric,
)
from rota.model.stats import QueueDepth
from rota.postgres.plans import Execute, Plan
from rota.postgres.reports.stats import read_depths

# Up to this many pairs of job and queue have their own series. An application has far fewer, unless
# names are made from data, which must not fill the memory of a metrics collector.
MOST_SERIES = 200
MOST_LIMITS = 100
_ALL = {"job": None, "queue": None}


def read_metrics(most_tenants: int) -> Plan[Metrics]:
    depths = yield from read_depths(_ALL)
    attempts = yield Execute("metrics/attempts", {"most": MOST_SERIES})
    counters = yield Execute("metrics/counters", {})
    health = yield from read_health()
    limits = yield Execute("metrics/limits", {"most": MOST_LIMITS})
    caps = yield Execute("metrics/caps", {"most": MOST_LIMITS})
    tenants = (yield Execute("metrics/tenants", {"most": most_tenants})) if most_tenants else []
    (paused,) = yield Execute("metrics/paused_tenants", {})
    return Metrics(
        tenants=[TenantMetric(**row) for row in tenants],
        tenants_paused=paused["paused"],
        depths=depths.queues,
        attempts=[_attempts(**row) for row in attempts],
        counters=[Counter(**row) for row in counters],
        health=health,
        counted_seconds=depths.age,
        limits=[LimitMetric(**row) for row in limits],
        caps=[CapMetric(**row) for row in caps],
    )


def read_health() -> Plan[FleetHealth]:
    """Return the state of workers and schedules."""
    (row,) = yield Execute("metrics/health", {})
    return FleetHealth(**row)


def _attempts(*, histogram: bytes, **row: Any) -> AttemptMetric:
    return AttemptMetric(buckets=unpack(histogram), **row)


def read_changes(
    after_audit: int | None, depths: Mapping[str, QueueDepth] | None = None
) -> Plan[Changes]:
    """Read changes; `depths` are earlier counts to be used instead of new ones."""
    attempts = yield Execute("metrics/totals", {})
    counts = yield Execute("metrics/counters", {})
    if depths is None:
        depths = {depth.queue: depth for depth in (yield from read_depths(_ALL)).queues}
    workers = yield Execute("metrics/workers", {})
    deeds = yield Execute("metrics/audit", {"after": after_audit})
    return Changes(
        attempts={(row["job"], row["queue"], row["outcome"]): row["attempts"] for row in attempts},
        counts={
            (row["name"], tuple(sorted(row["labels"].items()))): row["amount"] for row in counts
        },
        depths=dict(depths),
        workers={row["id"]: (row["name"], row["state"]) for row in workers},
        deeds=[OperatorAction(**row) for row in deeds],
    )
