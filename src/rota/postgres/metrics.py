"""Metrics that workers add: attempts by job, counters by name, attempts by tenant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rota.postgres.queries import Query, nothing


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
        "jobs": [rollup.job for rollup in rollups],
        "queues": [rollup.queue for rollup in rollups],
        "outcomes": [rollup.outcome for rollup in rollups],
        "attempts": [rollup.attempts for rollup in rollups],
        "durations": [rollup.duration_ms for rollup in rollups],
        "longests": [rollup.longest_ms for rollup in rollups],
        "histograms": [rollup.histogram for rollup in rollups],
    }
    return Query("metrics/add_rollups", params, nothing)


def add_counters(changes: Sequence[CounterChange]) -> Query[None]:
    params = {
        "names": [change.name for change in changes],
        "labels": [json.dumps(dict(change.labels)) for change in changes],
        "amounts": [change.amount for change in changes],
        "totals": [change.seconds for change in changes],
        "buckets": [
            None if change.buckets is None else _array(change.buckets) for change in changes
        ],
    }
    return Query("metrics/add_counters", params, nothing)


def add_tenants(changes: Sequence[TenantChange]) -> Query[None]:
    params = {
        "tenants": [change.tenant for change in changes],
        "succeeded": [change.succeeded for change in changes],
        "failed": [change.failed for change in changes],
        "others": [change.other for change in changes],
        "seconds": [change.seconds for change in changes],
    }
    return Query("metrics/add_tenants", params, nothing)


def _array(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
