"""What workers add to the metrics: attempts by job, counters by name, attempts by tenant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rota.store.queries import Query, nothing


class AttemptRollup(NamedTuple):
    """Attempts of one job in one queue with one outcome; the histogram is packed."""

    job: str
    queue: str
    outcome: str
    attempts: int
    duration_ms: float
    longest_ms: float
    histogram: str


class CounterChange(NamedTuple):
    name: str
    labels: Mapping[str, str]
    amount: int
    seconds: float
    buckets: Sequence[int] | None


class TenantChange(NamedTuple):
    tenant: str
    succeeded: int
    failed: int
    other: int
    seconds: float


def add_rollups(worker: int, rollups: Sequence[AttemptRollup]) -> Query[None]:
    params = {
        "worker": worker,
        "jobs": [one.job for one in rollups],
        "queues": [one.queue for one in rollups],
        "outcomes": [one.outcome for one in rollups],
        "attempts": [one.attempts for one in rollups],
        "durations": [one.duration_ms for one in rollups],
        "longests": [one.longest_ms for one in rollups],
        "histograms": [one.histogram for one in rollups],
    }
    return Query("metrics/add_rollups", params, nothing)


def add_counters(changes: Sequence[CounterChange]) -> Query[None]:
    params = {
        "names": [one.name for one in changes],
        "labels": [json.dumps(dict(one.labels)) for one in changes],
        "amounts": [one.amount for one in changes],
        "totals": [one.seconds for one in changes],
        "buckets": [None if one.buckets is None else _array(one.buckets) for one in changes],
    }
    return Query("metrics/add_counters", params, nothing)


def add_tenants(changes: Sequence[TenantChange]) -> Query[None]:
    params = {
        "tenants": [one.tenant for one in changes],
        "succeeded": [one.succeeded for one in changes],
        "failed": [one.failed for one in changes],
        "others": [one.other for one in changes],
        "seconds": [one.seconds for one in changes],
    }
    return Query("metrics/add_tenants", params, nothing)


def _array(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
