"""A schedule is two rows: what people say of it, and where it stands. Ticks and the ends of runs
write the second one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import rota
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
# Which version of the row it is, whatever it says.
_DEFINITION = "SELECT xmin, ctid, s::text FROM rota.schedules s WHERE name = 's'"


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work", max_attempts=1)
    await app.database.open()
    return Schedules(engine, app.database)


@pytest.fixture
def holder(connect: Callable[..., Connection]) -> Iterator[Connection]:
    """Somebody who leaves a transaction open in psql."""
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


async def test_ticks_and_ends_leave_the_definition_as_it_is(schedules: Schedules) -> None:
    schedules.add(overlap="allow", pause_after_failures=3)
    before = schedules.engine.rows(_DEFINITION)
    worker = schedules.engine.worker()
    for seconds, end in [(61, "succeed"), (121, "fail"), (181, "succeed")]:
        await schedules.tick(seconds=seconds)
        claim = schedules.engine.claim_one(worker)
        getattr(schedules.engine, end)(worker, claim)
    assert schedules.engine.rows(_DEFINITION) == before
    assert (schedules.row()["run_count"], schedules.row()["last_run_success"]) == (3, True)


@pytest.mark.parametrize("end", ["succeed", "fail"])
async def test_an_end_is_written_in_place(schedules: Schedules, end: str) -> None:
    """No index of the state is touched."""
    schedules.add()
    await schedules.tick(seconds=61)
    worker = schedules.engine.worker()
    claim = schedules.engine.claim_one(worker)
    with schedules.engine.conn.transaction():
        getattr(schedules.engine, end)(worker, claim)
        assert schedules.engine.rows(
            "SELECT pg_stat_get_xact_tuples_updated(c) AS updated,"
            " pg_stat_get_xact_tuples_hot_updated(c) AS hot"
            " FROM (SELECT 'rota.schedule_state'::regclass AS c) t"
        ) == [{"updated": 1, "hot": 1}]


@pytest.mark.parametrize(
    "held",
    ["SELECT FROM rota.schedules FOR UPDATE", "UPDATE rota.schedules SET description = 'x'"],
)
async def test_a_definition_that_somebody_holds_stops_neither_ticks_nor_ends(
    schedules: Schedules, holder: Connection, held: str
) -> None:
    schedules.add()
    holder.execute(held.encode())
    await schedules.tick(seconds=61)
    worker = schedules.engine.worker()
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    await schedules.tick(seconds=121)
    assert schedules.words() == [("ran", None, 1), ("ran", None, 1)]
    assert schedules.row()["last_run_success"] is True


async def test_an_end_that_pauses_a_held_schedule_does_not_wait_and_pauses_it_later(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add(pause_after_failures=1)
    await schedules.tick(seconds=61)
    worker = schedules.engine.worker()
    claim = schedules.engine.claim_one(worker)
    holder.execute("SELECT FROM rota.schedules FOR UPDATE")
    schedules.engine.fail(worker, claim)
    assert schedules.engine.state(claim["id"]) == "failed"
    assert schedules.row()["paused_at"] is None
    holder.rollback()
    await schedules.tick()
    row = schedules.row()
    assert (row["paused_by"], row["pause_reason"]) == ("rota", "1 run failed")
    (entry,) = [
        change for change in schedules.engine.audit("s") if change["action"] == "schedule.paused"
    ]
    assert entry["actor"] == "rota"


async def test_the_end_of_a_pause_waits_for_whoever_holds_the_definition(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add()
    schedules.add("other")
    schedules.engine.rows(
        "SELECT rota.pause_schedule('s', until => %s::timestamptz + interval '90 s')", START
    )
    holder.execute("SELECT FROM rota.schedules WHERE name = 's' FOR UPDATE")
    await schedules.tick(seconds=121)
    assert (schedules.ledger(), len(schedules.ledger("other"))) == ([], 2)
    holder.rollback()
    schedules.engine.rows("DELETE FROM rota.schedule_holds")
    await schedules.tick()
    assert schedules.words() == [("skipped", "paused", 1), ("ran", None, 1)]
    assert schedules.row()["paused_at"] is None


async def test_an_edit_voids_a_tick_that_is_under_way(schedules: Schedules) -> None:
    schedules.add()
    schedules.ticker.between = lambda: schedules.update(payload='{"n": 1}')
    await schedules.tick(seconds=61)
    (run,) = schedules.runs()
    assert run["payload"] == {"n": 1}


async def test_a_time_that_somebody_set_is_gone_from_the_definition_when_it_came(
    schedules: Schedules,
) -> None:
    schedules.add()
    schedules.update(next_run_at=START.replace(minute=5))
    state = "SELECT next_run_at, moved_xid FROM rota.schedules WHERE name = 's'"
    assert schedules.engine.rows(state)[0]["next_run_at"] == START.replace(minute=5)
    await schedules.tick(seconds=301)
    assert schedules.engine.rows(state) == [{"next_run_at": None, "moved_xid": None}]
    assert schedules.row()["next_run_at"] == START.replace(minute=6)


async def test_an_edit_of_the_timing_takes_a_set_time_away_also_where_the_clock_went_back(
    schedules: Schedules,
) -> None:
    schedules.add()
    schedules.set_clock(START.replace(minute=2))
    schedules.update(next_run_at=START.replace(minute=5))
    schedules.set_clock(START.replace(minute=1))
    schedules.update(interval_seconds=120)
    row = schedules.row()
    assert (row["moved_to"], row["next_run_at"]) == (None, None)


def test_no_column_is_in_both_but_the_next_time(conn: Connection) -> None:
    """What somebody has set, and what is."""
    both = conn.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'rota.schedules'::regclass"
        " AND attnum > 0 INTERSECT SELECT attname FROM pg_attribute"
        " WHERE attrelid = 'rota.schedule_state'::regclass AND attnum > 0"
    ).fetchall()
    assert both == [("next_run_at",)]


def test_a_state_goes_with_its_schedule(conn: Connection) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work')")
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '@daily')")
    strays = (
        "SELECT count(*) FROM rota.schedules s FULL JOIN rota.schedule_state t"
        " ON t.schedule_id = s.id WHERE s.id IS NULL OR t.schedule_id IS NULL"
    )
    assert conn.execute(strays).fetchone() == (0,)
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '@daily')"
                 " ON CONFLICT (tenant, name) DO NOTHING")  # fmt: skip
    conn.execute("DELETE FROM rota.schedules WHERE name = 's'")
    assert conn.execute(strays).fetchone() == (0,)
