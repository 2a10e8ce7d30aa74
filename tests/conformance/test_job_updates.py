"""What an update of a job means for its runs, however they came in: queue, priority and maximum
attempts are those of the enqueue. Timeout and backoff: tests/engine/loops/test_definitions.py."""

from __future__ import annotations

import pytest

import rota
from tests.scheduling import Schedules
from tests.sql_engine import Engine, Row

OLD, NEW = ("default", 5, 3), ("fast", 1, 9)
WAYS = ["call", "trigger", "schedule", "event", "retry"]


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    engine.rows("UPDATE rota.jobs SET events = '{order.paid}' WHERE name = 'work'")
    schedules.add("s", overlap="allow")
    return schedules


async def enqueue(schedules: Schedules, way: str, seconds: float) -> Row:
    engine = schedules.engine
    if way == "call":
        engine.enqueue()
    elif way == "trigger":
        engine.one("SELECT rota.trigger_schedule('s')")
    elif way == "schedule":
        await schedules.tick(seconds=seconds)
    elif way == "event":
        engine.one("SELECT rota.emit('order.paid', '{}')")
    else:
        run = engine.enqueue()
        engine.cancel(run)
        engine.one("SELECT rota.retry_run(%s)", run)
    return engine.rows("SELECT * FROM rota.runs ORDER BY id DESC LIMIT 1")[0]


def settings(run: Row) -> tuple[str, int, int]:
    return run["queue"], run["priority"], run["max_attempts"]


@pytest.mark.parametrize("way", WAYS)
async def test_waiting_runs_keep_theirs_and_new_ones_follow(schedules: Schedules, way: str) -> None:
    engine = schedules.engine
    first = await enqueue(schedules, way, 61)
    assert settings(first) == OLD
    engine.rows(
        "UPDATE rota.jobs SET queue = 'fast', priority = 1, max_attempts = 9 WHERE name = 'work'"
    )
    assert settings(engine.run(first["id"])) == OLD
    assert settings(await enqueue(schedules, way, 121)) == NEW


async def test_a_retry_is_allowed_as_often_as_the_job_says_now(schedules: Schedules) -> None:
    engine = schedules.engine
    run, worker = engine.enqueue(), engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    engine.rows("UPDATE rota.jobs SET queue = 'fast', max_attempts = 9 WHERE name = 'work'")
    engine.one("SELECT rota.retry_run(%s)", run)
    again = engine.run(run)
    assert (again["queue"], again["max_attempts"]) == ("default", 1 + 9)
