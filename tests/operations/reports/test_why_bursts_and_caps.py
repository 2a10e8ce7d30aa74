"""Why a run waits for its place among many, and what a full queue does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from tests.operations.reports.why import Asker
from tests.scheduling import START, Interrupted, Schedules
from tests.sql_engine import Engine

MANY = """
INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)
SELECT 's' || i, 'work', 3600, %s FROM generate_series(1, 30) i
"""


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    engine.worker()
    return engine


@pytest.fixture
def why(app: rota.App, engine: Engine) -> Iterator[Asker]:
    asker = Asker(app, engine)
    yield asker
    asker.run_printed()


def fill(app: rota.App, engine: Engine, when_full: Any = "refuse") -> list[int]:
    app.queues.sync.set("default", max_waiting=1, when_full=when_full)
    runs = [engine.enqueue()]
    tend(engine)
    return runs


def tend(engine: Engine) -> None:
    while engine.one("SELECT moved FROM rota.tend_caps()"):
        pass


async def test_a_run_of_one_of_many_schedules(app: rota.App, why: Asker, engine: Engine) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    schedules.ticker = Interrupted(app.database, tick_seconds=15, burst_seconds=10)
    engine.rows(MANY, START)
    await schedules.tick()
    await schedules.tick(seconds=3600)
    run = schedules.runs("s30")[0]["id"]
    reason = why(run)["spread"]
    assert reason.sentence == (
        "It is delayed: 30 schedules were due at the same time, and s30 is number 30 of them."
    )
    assert reason.until == START + timedelta(seconds=3602)
    assert reason.command == "rota schedules update s30 --burst-allowed"
    engine.rows("UPDATE rota.schedules SET tenant = 'acme'")
    told = why(run)["spread"].command
    assert told == "rota schedules update --tenant acme s30 --burst-allowed"


def test_why_of_a_queue_that_is_full(app: rota.App, why: Asker, engine: Engine) -> None:
    fill(app, engine)
    reason = why("default", "queue")["queue_full"]
    assert reason.sentence == "Queue default is full: 1 run waits, and its cap is 1."
    assert reason.next_step.startswith("New runs are refused, and times of schedules are skipped")
    assert reason.since is not None
    app.queues.sync.set("default", when_full="drop_lowest")
    assert "dropped" in why("default", "queue")["queue_full"].next_step
    app.queues.sync.set("default", max_waiting=2)
    tend(engine)
    assert "queue_full" not in why("default", "queue")


def test_why_of_a_run_that_was_dropped(app: rota.App, why: Asker, engine: Engine) -> None:
    (run,) = fill(app, engine, "drop_lowest")
    engine.enqueue(priority=1)
    tend(engine)
    reason = why(run)["run_dropped"]
    assert reason.sentence == (
        "It was dropped: queue default was full,"
        " and it was among the waiting runs with the lowest priority."
    )
    assert reason.command == f"rota runs retry {run}"


async def test_a_time_that_a_full_queue_skipped(app: rota.App, why: Asker, engine: Engine) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    fill(app, engine)
    schedules.add()
    await schedules.tick(seconds=61)
    reasons = why("s", "schedule")
    assert reasons["skipped_queue_full"].sentence == (
        "Its latest time was skipped: its queue was full."
    )
    assert "queue_full" in reasons
