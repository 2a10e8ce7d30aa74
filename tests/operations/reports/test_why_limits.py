"""Why a run waits for a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import rota
from tests.operations.reports.why import Asker
from tests.scheduling import Schedules
from tests.sql_engine import Engine


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


def limit(engine: Engine, **changes: Any) -> None:
    engine.one("SELECT rota.set_limit('few', %s)", json.dumps({"jobs": ["work"], **changes}))


def admit(engine: Engine) -> None:
    while engine.rows("SELECT * FROM rota.admit_runs()")[0]["next_seconds"] == 0:
        pass


def test_the_limit_is_full(why: Asker, engine: Engine) -> None:
    limit(engine, cap=2, key="customer:{c}")
    runs = [engine.enqueue(payload={"c": 7}) for _ in range(4)]
    admit(engine)
    reason = why(runs[3])["limit_full"]
    assert reason.sentence == (
        f"Limit few is full for customer:7: 2 of 2 slots in use, by runs {runs[0]}, {runs[1]}."
    )
    assert reason.next_step == "1 run waits ahead of it for the next free slot."
    assert reason.command == "rota limits show few"
    limit(engine, cap=0)
    assert why(runs[3])["limit_full"].next_step.startswith("No run starts under this limit")


def test_the_rate_is_used_up(why: Asker, engine: Engine) -> None:
    limit(engine, kind="rate", cap=1, period_seconds=60)
    runs = [engine.enqueue() for _ in range(2)]
    admit(engine)
    reason = why(runs[1])["limit_rate"]
    assert reason.sentence == "Rate limit few is used up: 1 per 1 min."
    assert reason.until is not None
    assert 50 < (reason.until - engine.one("SELECT rota.now()")).total_seconds() < 62


def test_it_waits_for_its_turn(why: Asker, engine: Engine) -> None:
    limit(engine, kind="sequence", cap=1, next_after="success")
    runs = [engine.enqueue() for _ in range(3)]
    admit(engine)
    reason = why(runs[2])["limit_turn"]
    assert reason.sentence == f"It waits for its turn in limit few: run {runs[0]} has the turn now."
    assert reason.next_step == "1 run waits ahead of it; runs take turns by age."
    worker = engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    admit(engine)
    stopped = why(runs[2])["limit_blocked"]
    assert f"run {runs[0]} failed" in stopped.sentence
    assert stopped.command == f"rota runs retry {runs[0]}"


def test_nobody_has_looked_yet(why: Asker, engine: Engine) -> None:
    limit(engine, cap=1)
    run = engine.enqueue()
    assert why.codes(run) == ["limit_room"]


async def test_a_schedule_whose_time_was_skipped(why: Asker, engine: Engine, app: rota.App) -> None:
    schedules = Schedules(engine, app.database)
    limit(engine, cap=1, on_full="skip")
    engine.enqueue()
    admit(engine)
    schedules.add("digest")
    await schedules.tick(seconds=60)
    admit(engine)
    assert schedules.words("digest")[-1] == ("skipped", "limit", 1)
    assert schedules.runs("digest")[-1]["end_reason"] == "skipped (limit few)"
    row = engine.rows("SELECT * FROM rota.why('digest', 'schedule')")
    assert "skipped_limit" in [one["code"] for one in row]


async def test_a_limit_of_a_schedule(engine: Engine, app: rota.App) -> None:
    schedules = Schedules(engine, app.database)
    engine.one("""SELECT rota.set_limit('one', '{"cap": 0, "schedule": "digest"}')""")
    schedules.add("digest")
    schedules.add("other")
    await schedules.tick(seconds=60)
    schedules.call("trigger_schedule", "digest")
    admit(engine)
    held = {(run["schedule"], run["held_by"]) for run in engine.rows("SELECT * FROM rota.runs")}
    assert held == {("digest", "limit"), ("other", None)}
