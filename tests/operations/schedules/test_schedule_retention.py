"""What schedules leave behind goes when their ledger does."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
OLD, YOUNG = "91 days", "89 days"


@pytest.fixture
def engine(app: rota.App, conn: Connection) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    return engine


def finished(engine: Engine, name: str, ago: str = OLD, **columns: Any) -> int:
    """A schedule that has finished so long ago."""
    if not {"cron", "run_at", "init", "interval_seconds"} & columns.keys():
        columns["run_at"] = engine.one("SELECT rota.now() - %s::interval - interval '1 h'", ago)
    engine._insert("schedules", {"name": name, "job": "work", **columns})
    engine.rows(
        "UPDATE rota.schedule_state SET finished_at = rota.now() - %s::interval WHERE schedule_id"
        " IN (SELECT id FROM rota.schedules WHERE name = %s)",
        ago, name,
    )  # fmt: skip
    return int(engine.one("SELECT id FROM rota.schedules WHERE name = %s", name))


def names(engine: Engine) -> set[str]:
    rows = engine.rows("SELECT name FROM rota.schedules WHERE NOT is_system")
    return {row["name"] for row in rows}


def backfill(engine: Engine, schedule: int, ago: str = OLD) -> int:
    made = int(
        engine.one(
            "INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_at, created_by)"
            " VALUES (%s, rota.now(), rota.now(), rota.now() - %s::interval, 'me') RETURNING id",
            schedule, ago,
        )
    )  # fmt: skip
    engine.rows(
        "INSERT INTO rota.backfill_times (backfill_id, schedule_id, nominal_at, run_id)"
        " SELECT %s, %s, rota.now() - n * interval '1 h', -n FROM generate_series(1, 3) n",
        made, schedule,
    )  # fmt: skip
    return made


async def prune(app: rota.App) -> dict[str, int]:
    """What a pass removed, which is what it said before that it would."""
    told = await app.retention.plan()
    done = await app.retention.run(hurry=True)
    removed = {it.table: it.rows for it in done.items if it.action == "delete"}
    assert removed == {it.table: it.rows for it in told.items if it.action == "delete"}
    return removed


async def test_finished_schedules_go_after_the_days_of_occurrences(
    app: rota.App, engine: Engine
) -> None:
    finished(engine, "old")
    finished(engine, "young", YOUNG)
    engine._insert("schedules", {"name": "alive", "job": "work", "cron": "0 8 * * *"})
    assert await prune(app) == {"schedules": 1}
    assert names(engine) == {"young", "alive"}
    (deed,) = [row for row in engine.audit("old") if row["action"] == "schedule.deleted"]
    assert deed["actor"] == "rota"
    assert await prune(app) == {}


async def test_what_could_run_again_is_kept(app: rota.App, engine: Engine) -> None:
    """Code that declares it would make it again, and it would start over."""
    by_code = {"origin": "code", "code": "{}"}
    ended = engine.one("SELECT rota.now() - interval '91 days 1 hour'")
    finished(engine, "max runs", interval_seconds=60, max_runs=1, **by_code)
    finished(engine, "once", init="once", origin="definition", code="{}")
    finished(engine, "reminder", **by_code)
    finished(engine, "campaign", interval_seconds=60, end_at=ended, **by_code)
    finished(engine, "by hand", interval_seconds=60, max_runs=1)
    await prune(app)
    assert names(engine) == {"max runs", "once"}


async def test_one_with_an_open_run_and_one_that_is_required_are_kept(
    app: rota.App, engine: Engine
) -> None:
    schedule = finished(engine, "waiting")
    finished(engine, "required")
    engine._insert(
        "schedules",
        {"name": "other", "job": "work", "cron": "0 8 * * *", "requires": '[{"name": "required"}]'},
    )
    run_id = engine.enqueue()
    engine.rows("UPDATE rota.open_runs SET schedule_id = %s WHERE id = %s", schedule, run_id)
    assert await prune(app) == {}
    assert names(engine) == {"waiting", "required", "other"}


async def test_backfills_go_with_their_times(app: rota.App, engine: Engine) -> None:
    engine._insert("schedules", {"name": "s", "job": "work", "cron": "0 8 * * *"})
    schedule = engine.one("SELECT id FROM rota.schedules WHERE name = 's'")
    old, young, open_one = (
        backfill(engine, schedule),
        backfill(engine, schedule, YOUNG),
        backfill(engine, schedule),
    )
    engine.rows(
        "UPDATE rota.backfill_times SET run_id = %s WHERE (backfill_id, nominal_at) ="
        " (SELECT backfill_id, max(nominal_at) FROM rota.backfill_times WHERE backfill_id = %s"
        " GROUP BY 1)",
        engine.enqueue(), open_one,
    )  # fmt: skip
    assert await prune(app) == {"backfill_times": 3, "backfills": 1}
    left = {row["id"] for row in engine.rows("SELECT id FROM rota.backfills")}
    assert left == {young, open_one}
    assert old not in left
    assert engine.one("SELECT count(*) FROM rota.backfill_times") == 6


async def test_starts_that_are_over_are_forgotten(app: rota.App, engine: Engine) -> None:
    engine._insert("schedules", {"name": "s", "job": "work", "init": "start"})
    schedule = engine.one("SELECT id FROM rota.schedules WHERE name = 's'")
    rows = [
        (schedule, "start 1", OLD), (schedule, "start 2", YOUNG), (schedule, "release 1", OLD),
        (schedule, "once", OLD), (-1, "release 1", OLD), (-1, "once", YOUNG),
    ]  # fmt: skip
    for of_schedule, marker, ago in rows:
        engine.rows(
            "INSERT INTO rota.init_runs (schedule_id, marker, run_id, enqueued_at)"
            " VALUES (%s, %s, -1, rota.now() - %s::interval)", of_schedule, marker, ago,
        )  # fmt: skip
    assert await prune(app) == {"init_runs": 2}
    left = engine.rows("SELECT schedule_id, marker FROM rota.init_runs ORDER BY 1, 2")
    assert [(row["schedule_id"], row["marker"]) for row in left] == [
        (-1, "once"), (schedule, "once"), (schedule, "release 1"), (schedule, "start 2"),
    ]  # fmt: skip


async def test_bulk_actions_go_once_they_have_ended(app: rota.App, engine: Engine) -> None:
    def bulk(ago: str, state: str) -> int:
        made = engine.one("SELECT rota.start_bulk_action('cancel', '{\"job\": \"work\"}')")
        engine.rows(
            "UPDATE rota.bulk_actions SET state = %s, created_at = rota.now() - %s::interval,"
            " finished_at = CASE WHEN %s THEN rota.now() - %s::interval END WHERE id = %s",
            state, ago, state in ("stopped", "finished"), ago, made,
        )  # fmt: skip
        return int(made)

    bulk(OLD, "finished")
    bulk(OLD, "stopped")
    kept = {bulk(YOUNG, "finished"), bulk(OLD, "running"), bulk(OLD, "paused")}
    assert await prune(app) == {"bulk_actions": 2}
    assert {row["id"] for row in engine.rows("SELECT id FROM rota.bulk_actions")} == kept
