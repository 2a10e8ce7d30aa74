"""`app.stats`: what waits, and what was done, in all, by job and by step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

import rota
from rota.engine.metrics.rollups import Rollups
from rota.model.stats import Activity, Stats
from rota.testing import Clock, run_due
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]


async def done(
    app: rota.App, job: str, outcome: str, *durations_ms: float, queue: str = "q"
) -> None:
    rollups = Rollups(app.database)
    rollups.worker = 7
    for duration in durations_ms:
        rollups.count(job, queue, outcome, duration)
    await rollups.run_once()


async def test_open_runs_are_counted_by_state_and_queue(app: rota.App, conn: Conn) -> None:
    engine = Engine(conn)
    engine.job("mail", queue="out")
    engine.job("other")
    worker = engine.worker("mail")
    for _ in range(3):
        engine.enqueue("mail")
    engine.enqueue("mail", delay="1 hour")
    engine.enqueue("other")
    engine.claim_one(worker, queues=["out"], jobs=["mail"])

    found = await app.stats.get()

    assert found.counted_at is not None
    assert (found.states.queued, found.states.running, found.states.scheduled) == (3, 1, 1)
    (default, out) = found.queues
    assert (default.queue, default.queued) == ("default", 1)
    assert (out.queue, out.queued, out.running, out.scheduled, out.held) == ("out", 2, 1, 1, 0)
    assert out.oldest_seconds is not None
    assert found.oldest_queued_seconds == max(out.oldest_seconds, default.oldest_seconds or 0)


async def test_filters_hold_for_every_part(app: rota.App, conn: Conn) -> None:
    engine = Engine(conn)
    engine.job("a", queue="x")
    engine.job("b", queue="y")
    engine.enqueue("a")
    engine.enqueue("b")
    await done(app, "a", "succeeded", 1.0, queue="x")
    await done(app, "b", "failed", 1.0, 2.0, queue="y")

    of_a = await app.stats.get(job="a")
    assert (of_a.states.queued, [it.queue for it in of_a.queues]) == (1, ["x"])
    assert ([it.job for it in of_a.jobs], of_a.total.attempts) == (["a"], 1)
    of_y = await app.stats.get(queue="y")
    assert ([it.job for it in of_y.jobs], of_y.total.failed) == (["b"], 2)
    assert [it.activity.failed for it in of_y.series] == [2]
    assert (await app.stats.get(queue="nowhere")).total.attempts == 0


async def test_durations_rates_and_failures_come_from_the_roll_ups(app: rota.App) -> None:
    await done(app, "mail", "succeeded", *[2.0] * 90)
    await done(app, "mail", "failed", *[500.0] * 9)
    await done(app, "mail", "timed_out", 3000.0)

    found = (await app.stats.get()).total

    assert (found.attempts, found.succeeded, found.failed, found.timed_out) == (100, 90, 9, 1)
    assert found.failure_rate == pytest.approx(0.1)
    assert found.average_ms == pytest.approx((180 + 4500 + 3000) / 100)
    assert found.p50_ms == pytest.approx(2.0, rel=0.5)
    assert found.p95_ms == pytest.approx(500, rel=0.5)
    assert found.longest_ms == 3000
    assert found.per_second == pytest.approx(100 / 3600, rel=0.05)


async def test_folded_minutes_hours_and_days_say_the_same(
    app: rota.App, conn: Conn, clock: Clock
) -> None:
    clock.set(datetime(2026, 3, 1, 10, 30, tzinfo=UTC))
    for hours in (0, 1, 23, 30):
        clock.set(datetime(2026, 3, 1, 10, 30, tzinfo=UTC) + timedelta(hours=hours))
        await done(app, "mail", "succeeded", 1.0, 4.0)
        await done(app, "sms", "failed", 1.0)
    for age in (timedelta(hours=1), timedelta(hours=9), timedelta(days=2), timedelta(days=100)):
        before = _timeless(await app.stats.get(since=age))
        while conn.execute("SELECT rota.fold_rollups(100)").fetchone() != (0,):
            pass
        assert _timeless(await app.stats.get(since=age)) == before
        conn.execute("UPDATE rota.rollup_minutes SET worker = 5")
        conn.execute("DELETE FROM rota.rollup_spans")
    every = await app.stats.get(since=timedelta(days=3))
    assert [(it.job, it.activity.attempts) for it in every.jobs] == [("mail", 8), ("sms", 4)]


def _timeless(found: Stats) -> list[Activity]:
    """Rates fall while the clock goes on."""
    every = [found.total, *(one.activity for one in found.jobs)]
    return [replace(one, per_second=0.0) for one in every]


async def test_a_series_has_the_steps_asked_for(app: rota.App, clock: Clock) -> None:
    start = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
    for minutes in (0, 1, 2, 31):
        clock.set(start + timedelta(minutes=minutes, seconds=5))
        await done(app, "mail", "succeeded", 1.0)
    clock.set(start + timedelta(minutes=40))

    found = await app.stats.get(since=start, step_seconds=timedelta(minutes=5))

    assert found.step_seconds == 300
    assert [(it.at, it.activity.attempts) for it in found.series] == [
        (start, 3),
        (start + timedelta(minutes=30), 1),
    ]
    by_minute = await app.stats.get(since=start - timedelta(hours=23), step_seconds=60)
    assert [it.at for it in by_minute.series] == [
        start + timedelta(minutes=m) for m in (0, 1, 2, 31)
    ]
    assert (await app.stats.get(since=start)).step_seconds == 60
    assert (await app.stats.get(since=start - timedelta(days=30))).step_seconds == 21_600


async def test_an_hour_that_comes_twice_is_two_hours(
    make_app: MakeApp, clock: Clock, conn: Conn
) -> None:
    """In the zone of the session: rates are of real time."""
    place = sql.Identifier(conn.info.dbname)
    conn.execute(sql.SQL("ALTER DATABASE {} SET timezone = 'Europe/Berlin'").format(place))
    app = make_app()
    start = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    clock.set(start)
    await done(app, "mail", "succeeded", *[1.0] * 3600)
    clock.set(start + timedelta(minutes=31))
    found = await app.stats.get(since=start, step_seconds=timedelta(minutes=30))
    (step,) = found.series
    assert (step.at, step.at.utcoffset()) == (start, timedelta(0))
    assert step.activity.per_second == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"since": timedelta(seconds=-5)}, "before until"),
        ({"since": timedelta(days=500)}, "400 days"),
        ({"since": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"step_seconds": 90}, "whole number of minutes"),
        ({"step_seconds": 0}, "from 60"),
        ({"since": timedelta(days=30), "step_seconds": 60}, "more than 1500"),
    ],
)
async def test_a_range_that_cannot_be_read_is_refused(
    app: rota.App, arguments: Any, match: str
) -> None:
    with pytest.raises(rota.InputError, match=match):
        await app.stats.get(**arguments)


async def test_an_unknown_job_is_an_error(app: rota.App) -> None:
    with pytest.raises(rota.UnknownJob, match='"nobody"'):
        await app.stats.get(job="nobody")


async def test_ended_runs_are_counted_by_state(app: rota.App, conn: Conn) -> None:
    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError

    @app.job
    async def work() -> None: ...

    for _ in range(2):
        await work.enqueue()
        await fail.enqueue()
    gone = await work.options(delay=60).enqueue()
    await app.runs.cancel(gone.id)
    await run_due(app)

    for _ in range(2):
        states = (await app.stats.get()).states
        assert (states.succeeded, states.failed, states.cancelled) == (2, 2, 1)
        conn.execute("SELECT rota.fold_counts()")
    assert (await app.stats.get(job="fail")).states.failed == 2


async def test_a_run_that_failed_twice_has_failed_once(app: rota.App, conn: Conn) -> None:
    @app.job(max_attempts=1)
    async def bad() -> None:
        raise RuntimeError("no")

    run = await bad.enqueue()
    await run_due(app)
    await app.runs.retry(run.id)
    assert (await app.stats.get()).states.failed == 0
    await run_due(app)
    conn.execute("SELECT rota.fold_errors()")
    assert (await app.stats.get()).states.failed == 1
    await app.runs.retry(run.id)
    await app.runs.cancel(run.id)
    states = (await app.stats.get(job="bad")).states
    assert (states.failed, states.cancelled) == (0, 1)
    status = conn.execute("SELECT total_runs FROM rota.job_status WHERE name = 'bad'")
    assert status.fetchone() == (1,)


async def test_what_waits_is_counted_at_every_look_without_a_worker(
    app: rota.App, conn: Conn
) -> None:
    Engine(conn).job()
    for queued in range(3):
        found = await app.stats.get()
        assert (found.states.queued, found.counted_at >= found.since) == (queued, True)
        Engine(conn).enqueue()


async def test_a_count_of_many_open_runs_is_not_repeated_for_every_reader(
    app: rota.App, conn: Conn
) -> None:
    Engine(conn).job()
    conn.execute("SELECT rota.enqueue_batch('work', to_jsonb(array_fill('{}'::jsonb, '{20001}')))")
    assert (await app.stats.get()).states.queued == 20_001
    Engine(conn).enqueue()
    conn.execute("UPDATE rota.count_marks SET took_ms = 1e6")  # long: not repeated so soon
    assert (await app.stats.get()).states.queued == 20_001
    conn.execute("UPDATE rota.count_marks SET counted_at = counted_at - interval '301 s'")
    assert (await app.stats.get()).states.queued == 20_002
    conn.execute(
        "UPDATE rota.count_marks SET counted_at = counted_at - interval '200 s', took_ms = 1e6"
    )
    found = await app.stats.get(queue="elsewhere")
    assert (found.queues, (found.at - found.counted_at).total_seconds() > 199) == ([], True)


def test_sync_callers_have_the_same(app: rota.App) -> None:
    assert app.stats.sync.get().total.attempts == 0
