"""Metrics as Prometheus reads them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

import rota
from rota.engine.metrics.counters import Counters
from rota.engine.metrics.rollups import Rollups
from rota.model.histogram import BUCKETS, bucket_of
from rota.model.metrics import AttemptMetric, Counter, FleetHealth, Metrics, TenantMetric
from rota.model.stats import QueueDepth
from rota.telemetry.metrics import METRICS
from rota.telemetry.prometheus import MOST_QUEUES, render
from rota.testing import Clock, eventually
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(totals: Metrics) -> Samples:
    text = render(totals)[0].decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


HEALTH = FleetHealth(
    live=1, draining=0, stopping=0, stuck=0, failing=0, silent=0, asleep=0, lost=0, slots=4,
    heartbeat_seconds=0.5, memory_bytes=3_000_000, memory_most_bytes=2_000_000, cpu_cores=1.5,
    schedules_active=2, schedules_paused=0, schedules_parked=1, overdue_seconds=0.0, duplicates=3,
    events=5, event_starts=4, hook_refusals=2,
    queues_paused=2, queues_full=1, queue_refusals=6,
)  # fmt: skip


def test_every_metric_is_on_the_page_even_when_nothing_has_happened() -> None:
    text = render(Metrics([], [], [], HEALTH))[0].decode()
    for metric in METRICS:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        assert f"# TYPE {name} {metric.kind}" in text, metric.name
    found = samples(Metrics([], [], [], HEALTH))
    assert value(found, "rota_late_ends_total") == 0
    assert value(found, "rota_duplicates_total") == 3
    assert value(found, "rota_events_total") == 5
    assert value(found, "rota_event_runs_total") == 4
    assert value(found, "rota_hook_refusals_total") == 2
    assert value(found, "rota_queues_paused") == 2
    assert value(found, "rota_queues_full") == 1
    assert value(found, "rota_queue_refusals_total") == 6


def test_histograms_are_cumulative_and_agree_with_their_counters() -> None:
    buckets = [0] * BUCKETS
    for seconds in (0.0005, 0.002, 0.03, 5000.0):
        buckets[bucket_of(seconds)] += 1
    attempts = [AttemptMetric("mail", "q", "succeeded", 4, 5000.0325, buckets)]
    found = samples(Metrics([], attempts, [], HEALTH))
    labels = {"job": "mail", "queue": "q", "outcome": "succeeded"}
    name = "rota_attempt_duration_seconds"
    assert value(found, f"{name}_bucket", le="0.001024", **labels) == 1
    assert value(found, f"{name}_bucket", le="0.004096", **labels) == 2
    assert value(found, f"{name}_bucket", le="4294.97", **labels) == 3
    assert value(found, f"{name}_bucket", le="+Inf", **labels) == 4
    assert value(found, f"{name}_sum", **labels) == pytest.approx(5000.0325)
    assert value(found, "rota_attempts_total", **labels) == 4
    ended = {"job": "mail", "queue": "q", "state": "succeeded"}
    assert value(found, "rota_runs_ended_total", **ended) == 4


def test_queues_beyond_the_limit_are_one() -> None:
    depths = [QueueDepth(f"q{n:03}", 0, 0, n, 0, 0, float(n)) for n in range(MOST_QUEUES + 5)]
    buckets = [1] + [0] * (BUCKETS - 1)
    counts = [
        Counter("pickups", {"queue": f"q{n:03}"}, 1, 0.0, buckets, 0.0)
        for n in range(MOST_QUEUES + 5)
    ]
    found = samples(Metrics(depths, [], counts, HEALTH))
    queues = {labels for name, labels in found if name == "rota_queue_oldest_seconds"}
    assert len(queues) == MOST_QUEUES + 1
    assert value(found, "rota_queue_runs", queue="(other)", state="queued") == 0 + 1 + 2 + 3 + 4
    assert value(found, "rota_pickup_seconds_count", queue="(other)") == 5


async def test_jobs_beyond_the_limit_are_one_and_no_total_ever_falls(
    app: rota.App, conn: Conn, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.postgres.reports.metrics.MOST_SERIES", 2)
    seen: Samples = {}
    for job in ("m", "n", "a", "b", "a", "m"):
        rollups = Rollups(app.database)
        rollups.worker = 1
        rollups.count(job, "q", "succeeded", 1.0)
        await rollups.run_once()
        clock.advance(240)
        for _ in range(2):
            found = samples(await app.stats.metrics())
            fallen = [key for key, before in seen.items() if found.get(key, 0) < before]
            assert [key for key in fallen if key[0].endswith(("_total", "_count"))] == []
            seen = found
            conn.execute("SELECT rota.fold_rollups(10)")
    name, labels = "rota_attempts_total", {"queue": "q", "outcome": "succeeded"}
    assert value(seen, name, job="m", **labels) == 2
    assert value(seen, name, job="(other)", queue="(other)", outcome="succeeded") == 3


async def test_a_worker_says_what_only_it_knows(
    app: rota.App, conn: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []

    def note(self: Counters, name: str, amount: int = 1, **labels: str) -> None:
        noted.append(name)
        original(self, name, amount, **labels)

    original = Counters.note
    monkeypatch.setattr(Counters, "note", note)

    @app.job(queue="mail")
    async def send() -> None: ...

    first = await send.options(key="k").enqueue()
    assert (await send.options(key="k").enqueue()).id == first.id
    with pytest.raises(rota.DuplicateKey):
        await send.options(key="k", on_conflict="raise").enqueue()
    async with app.worker():
        # The run may be over before the first tick is.
        await eventually(lambda: "ticks" in noted)
        await eventually(lambda: Engine(conn).state(first.id) == "succeeded")

    found = samples(await app.stats.metrics())
    assert value(found, "rota_duplicates_total") == 2
    assert value(found, "rota_pickup_seconds_count", queue="mail") == 1
    assert value(found, "rota_ticks_total") >= 1
    assert value(found, "rota_tick_age_seconds") < 60
    labels = {"job": "send", "queue": "mail", "outcome": "succeeded"}
    assert value(found, "rota_attempts_total", **labels) == 1


async def test_workers_by_state_and_those_that_were_lost(app: rota.App, conn: Conn) -> None:
    engine = Engine(conn)
    engine.worker()
    stuck = engine.worker()
    conn.execute("UPDATE rota.workers SET is_stuck = true WHERE id = %s", [stuck])
    engine.expire(engine.worker())
    engine.lose(engine.worker())

    found = samples(await app.stats.metrics())
    states = {"live": 1, "stuck": 1, "failing": 0, "silent": 0, "lost": 2, "stopping": 0}
    for state, count in states.items():
        assert value(found, "rota_workers", state=state) == count, state
    assert value(found, "rota_workers_lost_total") == 2
    assert value(found, "rota_worker_slots") == 20
    conn.execute("SELECT rota.fold_counts()")
    assert samples(await app.stats.metrics()) == found | {
        key: pytest.approx(seconds, abs=60)
        for key, seconds in found.items()
        if key[0].endswith("_seconds")
    }


def test_tenants_are_bounded_and_gauges() -> None:
    tenants = [
        TenantMetric("acme", 0, 1, 2, 3, 4, 5, 6), TenantMetric(None, 0, 0, 7, 0, 0, 0, 0),
    ]  # fmt: skip
    found = samples(Metrics([], [], [], HEALTH, tenants=tenants, tenants_paused=1))
    assert value(found, "rota_tenant_runs", tenant="acme", state="queued") == 2
    assert value(found, "rota_tenant_runs", tenant="acme", state="held") == 3
    assert value(found, "rota_tenant_runs", tenant="(other)", state="queued") == 7
    assert value(found, "rota_tenant_attempts_today", tenant="acme", outcome="failed") == 6
    assert value(found, "rota_tenants_paused") == 1


async def test_caps_of_queues(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    engine = Engine(conn)
    engine.job("work")
    await app.queues.set("default", max_waiting=1, when_full="drop_lowest")
    for _ in range(3):
        engine.enqueue()
    while engine.one("SELECT moved FROM rota.tend_caps()"):
        pass
    await app.queues.set("mail", max_waiting=0)
    with pytest.raises(rota.QueueFull):
        await app.runs.enqueue("work", {}, queue="mail")
    found = samples(await app.stats.metrics())
    assert value(found, "rota_queue_cap", queue="default") == 1
    assert value(found, "rota_queue_cap_waiting", queue="default") == 1
    assert value(found, "rota_queues_full") == 1
    assert value(found, "rota_queue_refusals_total") == 1
    assert value(found, "rota_runs_dropped_total", queue="default") == 2
