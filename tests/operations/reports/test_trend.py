"""`app.stats.trend`: what charts draw, beside the day before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.metrics.counters import Counters, changes
from rota.engine.metrics.rollups import Rollups
from rota.postgres.metrics import add_counters
from tests.sql_engine import Engine

NOON = datetime(2026, 6, 3, 12, 0, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    made = Engine(conn)
    made.job("mail", queue="out")
    return made


def at(engine: Engine, moment: datetime) -> None:
    engine.one("SELECT rota.set_clock(%s)", moment)


async def ended(app: rota.App, outcome: str, *durations: float) -> None:
    rollups = Rollups(app.database)
    rollups.worker = 7
    for one in durations:
        rollups.count("mail", "out", outcome, one)
    await rollups.run_once()


def waited(engine: Engine, seconds: float, times: int) -> None:
    """As a worker counts its claims."""
    counts = Counters()
    for _ in range(times):
        counts.observe("pickups", seconds, queue="out")
    given = add_counters(changes(counts.take())).params
    engine.rows(
        "SELECT rota.add_counts(%s, %s, %s::bigint[], %s::float8[], %s)",
        *(given[name] for name in ("names", "labels", "amounts", "totals", "buckets")),
    )


async def test_steps_hold_what_ended_and_yesterday_lies_below(
    app: rota.App, engine: Engine
) -> None:
    at(engine, NOON - DAY)
    await ended(app, "succeeded", *[5.0] * 7)
    at(engine, NOON - timedelta(minutes=10))
    await ended(app, "succeeded", *[10.0] * 20)
    await ended(app, "timed_out", 100.0)
    at(engine, NOON)
    await ended(app, "failed", 3.0)
    found = await app.stats.trend()

    assert (found.step_seconds, found.steps, found.since) == (
        60,
        60,
        NOON.replace(second=0) - 59 * timedelta(minutes=1),
    )
    assert (found.now.succeeded[49], found.now.failed[49], found.now.failed[59]) == (20, 1, 1)
    assert sum(found.now.succeeded) == 20
    assert (found.before.succeeded[59], sum(found.before.failed)) == (7, 0)
    assert found.now.p50_ms[49] == pytest.approx(10, rel=0.7)
    assert found.now.p50_ms[0] is None
    rates = found.per_minute(found.now.failed)
    assert rates[49] == 1
    assert rates[59] == pytest.approx(2, rel=0.2), "half of that minute is over"


@pytest.mark.parametrize(("hours", "step", "steps"), [(6, 300, 72), (24, 900, 96), (168, 7200, 84)])
async def test_longer_spans_say_the_same(
    app: rota.App, engine: Engine, hours: int, step: int, steps: int
) -> None:
    at(engine, NOON - HOUR * (hours - 2))
    await ended(app, "succeeded", 1.0, 1.0)
    at(engine, NOON)
    await ended(app, "failed", 1.0)
    engine.one("SELECT rota.fold_rollups(100)")
    found = await app.stats.trend(span=HOUR * hours, queue="out")

    assert (found.step_seconds, found.steps, len(found.now.failed)) == (step, steps, steps)
    assert (sum(found.now.succeeded), found.now.failed[-1]) == (2, 1)
    of_job = await app.stats.trend(span=HOUR * hours, job="mail")
    assert sum(of_job.now.succeeded) == 2


async def test_samples_say_what_waited_and_how_long_claims_took(
    app: rota.App, engine: Engine
) -> None:
    at(engine, NOON - timedelta(minutes=2))
    waited(engine, 0.004, 100)
    assert engine.one("SELECT rota.take_sample()") is True
    assert engine.one("SELECT rota.take_sample()") is False, "once a minute"
    at(engine, NOON - timedelta(minutes=1))
    engine.enqueue("mail")
    engine.rows("UPDATE rota.open_runs SET enqueued_at = enqueued_at - interval '90 seconds'")
    waited(engine, 2.0, 10)
    engine.one("SELECT rota.fold_counts()")
    engine.one("SELECT rota.take_sample()")
    at(engine, NOON)

    for queue in (None, "out"):
        found = await app.stats.trend(queue=queue)
        # A queue that rested before has no sample; all of them together always have one.
        assert found.now.queued[-2] == 1
        assert found.now.oldest_seconds[-2] == pytest.approx(90, abs=20)
        assert found.now.pickup_p50_ms[-2] == pytest.approx(2000, rel=0.6)
        assert found.now.pickup_p50_ms[-3] is None, "before it, nobody knows"
        assert found.now.queued[-1] is None
        assert (found.queued, found.oldest_queue) == (1, "out")
        assert found.oldest_seconds == pytest.approx(90, abs=30)


async def test_samples_are_kept_for_nine_days(app: rota.App, engine: Engine) -> None:
    at(engine, NOON - 10 * DAY)
    engine.one("SELECT rota.take_sample()")
    at(engine, NOON)
    engine.one("SELECT rota.take_sample()")
    assert engine.one("SELECT count(*) FROM rota.samples") == 1


async def test_wrong_questions(app: rota.App) -> None:
    with pytest.raises(rota.InputError, match="a trend cannot cover 7200 s"):
        await app.stats.trend(span=timedelta(hours=2))
    with pytest.raises(rota.UnknownJob):
        await app.stats.trend(job="nobody")
