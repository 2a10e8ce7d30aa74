"""What is counted beside attempts: by workers, and by the database itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.claiming.ends import EndBuffer
from rota.engine.metrics.counters import Counters
from rota.engine.metrics.rollups import Rollups
from rota.model.histogram import bucket_of
from rota.model.run import Claim
from rota.postgres.pipeline.exchange import Exchange
from rota.testing import eventually, run_due
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]


def counted(engine: Engine, name: str) -> list[tuple[dict[str, str], int]]:
    rows = engine.rows(
        "SELECT labels, sum(amount)::int AS amount FROM rota.all_counts"
        " WHERE name = %s GROUP BY labels ORDER BY labels",
        name,
    )
    return [(row["labels"], row["amount"]) for row in rows]


async def test_counts_are_added_and_folded(app: rota.App, engine: Engine) -> None:
    rollups = Rollups(app.database)
    for _ in range(2):
        rollups.counters.note("late_ends", 3)
        rollups.counters.observe("pickups", 0.25, queue="mail")
        await rollups.run_once()
        engine.one("SELECT rota.fold_counts()")
    (row,) = engine.rows("SELECT * FROM rota.counts WHERE name = 'pickups'")
    assert (row["labels"], row["amount"], row["total"]) == ({"queue": "mail"}, 2, 0.5)
    assert row["buckets"][18] == 2
    assert counted(engine, "late_ends") == [({}, 6)]
    assert engine.rows("SELECT * FROM rota.count_changes") == []


async def test_a_failed_write_keeps_them(app: rota.App, engine: Engine) -> None:
    rollups = Rollups(app.database)
    rollups.counters.observe("pickups", 1.0, queue="q")
    engine.rows("ALTER TABLE rota.count_changes RENAME TO hidden")
    with pytest.raises(psycopg.Error):
        await rollups.run_once()
    rollups.counters.observe("pickups", 1.0, queue="q")
    engine.rows("ALTER TABLE rota.hidden RENAME TO count_changes")
    await rollups.run_once()
    assert counted(engine, "pickups") == [({"queue": "q"}, 2)]


async def test_nothing_is_written_while_nothing_happens(app: rota.App, engine: Engine) -> None:
    rollups = Rollups(app.database)
    rollups.counters.note("late_ends", 0)
    rollups.counters.picked_up([])
    await rollups.run_once()
    assert engine.rows("SELECT * FROM rota.count_changes") == []


async def test_an_end_that_comes_too_late_is_counted(app: rota.App, engine: Engine) -> None:
    engine.job()
    worker = engine.worker()
    ours, theirs = engine.enqueue(), engine.enqueue()
    feed, counts = Exchange(app.database, worker, ["work"]), Counters()
    ends = EndBuffer(counts)
    claims = engine.claim(worker)
    conn_rows = "UPDATE rota.open_runs SET worker = %s WHERE id = %s"
    engine.rows(conn_rows, engine.worker(), theirs)
    for claim in claims:
        ends.succeeded(_claim(claim), 1.0, None)
    await ends.exchange(feed, None)
    await feed.close()
    assert engine.state(ours) == "succeeded"
    assert {name: total.amount for (name, _), total in counts.take().items()} == {"late_ends": 1}


def _claim(row: dict[str, Any]) -> Claim:
    return Claim(*row.values())._replace(payload=b"{}", extras=None)


async def test_loops_that_fail_and_ticks_that_went_well(app: rota.App, engine: Engine) -> None:
    async with app.worker():
        engine.rows("ALTER FUNCTION rota.promote_runs(integer) RENAME TO hidden")
        await eventually(lambda: ({"loop": "promoter"}, 1) in counted(engine, "loop_errors"))
        await eventually(lambda: counted(engine, "ticks") != [])


async def test_lines_that_were_stored_and_dropped(make_app: Any, engine: Engine) -> None:
    app: rota.App = make_app(**{"logs.buffer_lines": 5})

    @app.job
    async def talk(ctx: rota.Context) -> None:
        for number in range(8):
            ctx.log.info("line", number=number)

    await talk.enqueue()
    await run_due(app)
    ((_, stored),) = counted(engine, "lines_stored")
    assert stored >= 5
    assert counted(engine, "lines_dropped") == [({}, 3)]


async def test_decisions_and_lateness_of_schedules(
    make_app: Any, engine: Engine, conn: Conn
) -> None:
    app: rota.App = make_app(scheduler={"enabled": False})

    @app.job
    async def work() -> None: ...

    assert await app.database.open()
    schedules = Schedules(engine, app.database)
    schedules.add(cursor_at=START, next_run_at=START + timedelta(minutes=1))
    schedules.set_clock(START + timedelta(seconds=70))
    await schedules.tick()
    assert counted(engine, "occurrences") == [({"decision": "ran"}, 1)]
    (row,) = engine.rows("SELECT * FROM rota.count_changes WHERE name = 'schedule_claims'")
    late = engine.one("SELECT extract(epoch FROM claimed_at - nominal_at)::float FROM rota.ledger")
    assert row["total"] == pytest.approx(late)
    assert (row["amount"], sum(row["buckets"]), len(row["buckets"])) == (1, 1, 40)
    assert row["buckets"][bucket_of(late)] == 1

    await work.enqueue()
    await run_due(app)
    ((_, amount),) = counted(engine, "schedule_starts")
    assert amount == 1
    schedules.call("disable_schedule", "s")
    schedules.set_clock(START + timedelta(minutes=5))
    schedules.call("enable_schedule", "s")
    await schedules.tick()
    found = {labels.get("reason"): amount for labels, amount in counted(engine, "occurrences")}
    assert found.get("disabled", 0) >= 3


async def test_pickups_are_measured_on_the_first_run_of_a_claim() -> None:
    counts = Counters()
    plain = Claim(
        1, 1, 1, 0, 3, 5, "mail", "send", b"{}", None, None, None, False,
        START, START + timedelta(seconds=2), None, "",
    )  # fmt: skip
    scheduled = plain._replace(extras=b'{"run_at": "2026-06-01T12:00:00+00:00", "schedule": "s"}')
    other = plain._replace(extras=b'{"key": "k", "schedule": null, "run_at": "-infinity"}')
    again = scheduled._replace(attempt=2)
    counts.picked_up([plain, other, scheduled, again])
    taken = counts.take()
    assert {name: (it.amount, it.seconds) for (name, _), it in taken.items()} == {
        "pickups": (1, 2.0),
        "schedule_starts": (1, 2.0),
    }


async def test_the_status_of_a_job_counts_runs_that_history_has_forgotten(
    app: rota.App, engine: Engine
) -> None:
    @app.job(max_attempts=2, backoff={"kind": "fixed", "base": 0})
    async def work(ctx: rota.Context, fails: int) -> None:
        if ctx.attempt <= fails:
            raise ValueError("no")

    runs = [await work.enqueue(fails=fails) for fails in (0, 1, 2)]
    waiting = await work.options(delay=3600).enqueue(fails=0)
    await app.runs.cancel(waiting.id)
    async with app.worker():
        for run in runs:
            await app.runs.wait(run.id, timeout=30)
    query = "SELECT total_runs, success_rate_percent FROM rota.job_status WHERE name = 'work'"
    assert engine.rows(query) == [{"total_runs": 4, "success_rate_percent": 66.7}]
    engine.rows("SELECT rota.fold_errors()")
    engine.rows("SELECT rota.fold_counts()")
    engine.rows("DELETE FROM rota.ended_runs")
    assert engine.rows(query) == [{"total_runs": 4, "success_rate_percent": 66.7}]
