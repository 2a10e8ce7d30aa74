"""Many schedules at one instant: the ticks spread their runs, whoever ticks."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from rota.testing import run_due
from tests.conftest import MakeApp
from tests.scheduling import START, Interrupted, Schedules
from tests.sql_engine import Engine

MANY = """
INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)
SELECT to_char(i, '"s"FM0000'), 'work', 3600, %s FROM generate_series(1, %s) i
"""
AT = START + timedelta(hours=1)


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work")
    await app.database.open()
    found = Schedules(engine, app.database)
    found.ticker = Interrupted(
        app.database, tick_seconds=15, burst_seconds=10, random_number=lambda: 0.5
    )
    return found


async def add(schedules: Schedules, count: int) -> None:
    """All are due an hour after START."""
    schedules.engine.rows(MANY, START, count)
    await schedules.tick()


def starts(engine: Engine) -> list[float]:
    """In seconds after the instant, by the numbers of their schedules."""
    rows = engine.rows("SELECT run_at FROM rota.runs ORDER BY schedule")
    return [(row["run_at"] - AT).total_seconds() for row in rows]


async def test_a_lone_one_and_a_few_start_on_time(schedules: Schedules) -> None:
    await add(schedules, 10)
    await schedules.tick(seconds=3600)
    assert starts(schedules.engine) == [0] * 10
    assert {run["state"] for run in schedules.engine.rows("SELECT state FROM rota.runs")} == {
        "queued"
    }
    assert schedules.engine.one("SELECT count(*) FROM rota.bursts") == 0


async def test_more_are_spread_by_their_numbers(schedules: Schedules) -> None:
    await add(schedules, 30)
    await schedules.tick(seconds=3600)
    found = starts(schedules.engine)
    assert found[:10] == [0] * 10
    assert found[10:] == [pytest.approx((n + 1) / 10) for n in range(20)]
    rows = schedules.engine.rows("SELECT nominal_at, decision FROM rota.ledger")
    assert {(row["nominal_at"], row["decision"]) for row in rows} == {(AT, "ran")}
    rows = schedules.engine.rows("SELECT scheduled_for FROM rota.runs")
    assert {row["scheduled_for"] for row in rows} == {AT}


async def test_the_next_time_each_has_the_same_place(schedules: Schedules) -> None:
    await add(schedules, 30)
    await schedules.tick(seconds=3600)
    first = starts(schedules.engine)
    schedules.engine.rows("DELETE FROM rota.open_runs")
    await schedules.tick(seconds=7200)
    assert [at - 3600 for at in starts(schedules.engine)] == pytest.approx(first)


async def test_more_than_one_tick_takes_are_one_crowd(schedules: Schedules) -> None:
    await add(schedules, 450)
    await schedules.tick(seconds=3600)
    found = starts(schedules.engine)
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, 10)
    assert sum(at == 0 for at in found) == 10
    assert len(set(found)) == 441


async def test_tickers_at_once_share_the_places(
    schedules: Schedules, make_app: MakeApp, engine: Engine
) -> None:
    await add(schedules, 1000)
    tickers = []
    for _ in range(5):
        other = make_app()
        await other.database.open()
        tickers.append(Scheduler(other.database, tick_seconds=1, burst_seconds=10))
    schedules.set_clock(AT)
    await asyncio.gather(*(ticker.run_once() for ticker in tickers))
    found = starts(engine)
    assert len(found) == 1000
    assert sum(at == 0 for at in found) == 10
    assert max(found) == 10
    assert len(set(found)) == 991, "no place was given twice"


async def test_who_says_so_starts_on_time_and_takes_no_place(schedules: Schedules) -> None:
    await add(schedules, 30)
    schedules.engine.rows("UPDATE rota.schedules SET burst_allowed = true WHERE name < 's0016'")
    schedules.engine.rows("UPDATE rota.schedules SET jitter_seconds = 100 WHERE name = 's0016'")
    schedules.engine.rows("UPDATE rota.schedules SET is_shadow = true WHERE name = 's0017'")
    await schedules.tick()
    await schedules.tick(seconds=3600)
    found = starts(schedules.engine)
    assert found[:15] == [0] * 15
    assert found[15] == 50, "by its own jitter"
    assert found[16:26] == [0] * 10
    assert found[26:] == [pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.3)]


async def test_other_instants_are_no_crowd(schedules: Schedules) -> None:
    schedules.engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)"
        " SELECT 's' || i, 'work', 3600, %s + i * interval '1 ms' FROM generate_series(1, 30) i",
        START,
    )
    await schedules.tick()
    await schedules.tick(seconds=3601)
    rows = schedules.engine.rows("SELECT run_at = scheduled_for AS same FROM rota.runs")
    assert [row["same"] for row in rows] == [True] * 30


async def test_switched_off_all_start_at_once(app: rota.App, schedules: Schedules) -> None:
    schedules.ticker = Interrupted(app.database, tick_seconds=15, burst_seconds=0)
    await add(schedules, 30)
    await schedules.tick(seconds=3600)
    assert starts(schedules.engine) == [0] * 30


async def test_they_run_and_are_not_late(app: rota.App, schedules: Schedules) -> None:
    @app.job(name="work")
    async def work() -> None: ...

    await add(schedules, 30)
    await schedules.tick(seconds=3600)
    schedules.set_clock(AT + timedelta(seconds=3))
    await run_due(app)
    rows = schedules.engine.rows("SELECT state FROM rota.occurrences WHERE nominal_at = %s", AT)
    assert [row["state"] for row in rows] == ["succeeded"] * 30


async def test_old_marks_are_removed(schedules: Schedules) -> None:
    await add(schedules, 11)
    schedules.engine.rows(
        "INSERT INTO rota.bursts VALUES (%s, 50, 50, now() - interval '2 hours')", START
    )
    await schedules.tick(seconds=3600)
    assert schedules.engine.rows("SELECT at FROM rota.bursts") == [{"at": AT}]


def test_edits_are_noted_and_audited(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    @app.job(schedules=[rota.cron("0 8 * * *", burst_allowed=True)])
    async def report() -> None: ...

    app.jobs.sync.sync_definitions()
    assert app.schedules.sync.get("report").burst_allowed
    app.schedules.by("anna").sync.update("report", burst_allowed=False)
    assert not app.schedules.sync.get("report").burst_allowed
    (edited, version) = conn.execute(
        "SELECT edited -> 'burst_allowed' ->> 'by', version FROM rota.schedules"
        " WHERE name = 'report'"
    ).fetchone() or (None, None)
    assert (edited, version) == ("anna", 2)
    (after,) = conn.execute(
        "SELECT after FROM rota.audit WHERE action = 'schedule.updated' AND object_id = 'report'"
    ).fetchone() or (None,)
    assert after is not None
    assert after["burst_allowed"] is False
    app.jobs.sync.sync_definitions()
    assert not app.schedules.sync.get("report").burst_allowed, "an operator's value stays"
