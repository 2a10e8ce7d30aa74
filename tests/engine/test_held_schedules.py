"""An open transaction on one schedule, or one that fails: the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from rota.model.schedule import Schedule
from rota.timing import zones
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work")
    await app.database.open()
    return Schedules(engine, app.database)


@pytest.fixture
def holder(connect: Connect) -> Iterator[Connection]:
    """Somebody who leaves a transaction open in psql."""
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


def hold(holder: Connection, name: str = "s") -> None:
    holder.execute("UPDATE rota.schedules SET overlap = 'queue_one' WHERE name = %s", [name])


def expire_holds(schedules: Schedules) -> None:
    """As time does."""
    schedules.engine.rows("DELETE FROM rota.schedule_holds")


# Held by an open transaction.


async def test_others_tick_and_the_log_says_once_whom_it_waits_for(
    schedules: Schedules, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    schedules.add()
    schedules.add("other")
    hold(holder)
    schedules.engine.rows("SELECT pg_sleep(1.1)")  # brief holds, as of ends, are not worth a line
    for seconds in (61, 121, 181):
        await schedules.tick(seconds=seconds)
        expire_holds(schedules)
    assert schedules.runs() == []
    assert len(schedules.ledger("other")) == 3
    (line,) = [message for message in caplog.messages if "skipping a schedule" in message]
    assert f"schedule=s pid={holder.info.backend_pid} since='2" in line
    assert "SET overlap = 'queue_one'" in line


async def test_a_held_one_is_left_alone_for_a_while_and_made_up_for(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add()
    hold(holder)
    schedules.set_clock(START + timedelta(seconds=61))
    assert await schedules.ticker.tick() == 1
    assert await schedules.ticker.tick() == 0
    assert 0 < await schedules.ticker.run_once() <= 2
    holder.rollback()
    expire_holds(schedules)
    await schedules.tick()
    assert schedules.words() == [("ran", None, 1)]


async def test_more_held_ones_than_a_tick_takes_starve_nobody(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)"
        " SELECT 's' || i, 'work', 60, %s FROM generate_series(1, 450) i",
        START,
    )
    schedules.add("last", interval_seconds=61, anchor_at=START)
    await schedules.tick()
    holder.execute("UPDATE rota.schedules SET overlap = 'queue_one' WHERE name <> 'last'")
    await schedules.tick(seconds=62)
    assert len(schedules.runs("last")) == 1
    assert schedules.engine.one("SELECT count(*) FROM rota.open_runs") == 1
    assert schedules.engine.one("SELECT count(*) FROM rota.schedule_holds") <= 3


async def test_a_bad_one_that_is_held_is_neither_parked_nor_waited_for(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add(cron="61 * * * *")
    schedules.add("other")
    hold(holder)
    await schedules.tick(seconds=61)
    assert schedules.row()["parked_at"] is None
    assert len(schedules.runs("other")) == 1


async def test_the_lock_of_ticks_stops_nobody(
    schedules: Schedules, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    schedules.add()
    holder.execute("SELECT FROM rota.locks FOR UPDATE")
    await schedules.tick(seconds=61)
    await schedules.tick(seconds=121)
    assert len(schedules.ledger()) == 2
    (line,) = [message for message in caplog.messages if "the scheduler's lock" in message]
    assert f"pid={holder.info.backend_pid} " in line


# The ends of runs.


async def test_the_end_of_a_run_does_not_wait_for_its_schedule(
    schedules: Schedules, holder: Connection
) -> None:
    """Nor do those that are written with it; what it changes is caught up with afterwards."""
    schedules.add(overlap="queue_all")
    await schedules.tick(seconds=61)
    await schedules.tick(seconds=121)
    worker = schedules.engine.worker()
    plain = schedules.engine.enqueue()
    claims = schedules.engine.claim(worker)
    hold(holder)
    assert len(schedules.engine.succeed(worker, *claims)) == 2
    assert schedules.engine.state(plain) == "succeeded"
    assert schedules.row()["last_run_at"] is None
    await schedules.tick()
    assert schedules.engine.claim(worker) == []  # its next one still waits: nobody could say so
    holder.rollback()
    await schedules.tick()
    assert schedules.row()["last_run_success"] is True
    assert schedules.ledger()[0]["state"] == "succeeded"
    assert len(schedules.engine.claim(worker)) == 1
    assert schedules.engine.one("SELECT succeeded FROM rota.schedule_days") == 1
    assert schedules.engine.one("SELECT count(*) FROM rota.schedule_ends") == 0


async def test_an_open_cancel_of_one_run_holds_up_no_other_of_its_schedule(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add(overlap="allow")
    await schedules.tick(seconds=61)
    await schedules.tick(seconds=121)
    first, second = schedules.runs()
    worker = schedules.engine.worker()
    claims = schedules.engine.claim(worker, 1)
    assert claims[0]["id"] == first["id"]
    holder.execute("SELECT rota.cancel_run(%s)", [second["id"]])
    assert schedules.engine.succeed(worker, *claims) == [first["id"]]


async def test_a_held_row_of_the_ledger_holds_up_no_end(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add()
    await schedules.tick(seconds=61)
    worker = schedules.engine.worker()
    holder.execute("UPDATE rota.ledger SET details = '{}'")
    assert len(schedules.engine.succeed(worker, *schedules.engine.claim(worker))) == 1
    holder.rollback()
    assert schedules.engine.one("SELECT rota.settle_schedule_ends(10)") == 1
    assert schedules.ledger()[0]["success"] is True


async def test_held_counts_of_a_day_hold_up_no_end(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add()
    worker = schedules.engine.worker()
    for turn in range(2):
        await schedules.tick(seconds=61 + 60 * turn)
        assert len(schedules.engine.succeed(worker, *schedules.engine.claim(worker))) == 1
        if turn == 0:
            holder.execute("SELECT FROM rota.schedule_days FOR UPDATE")
    holder.rollback()
    assert schedules.engine.one("SELECT rota.settle_schedule_ends(10)") == 1
    assert schedules.engine.one("SELECT sum(succeeded) FROM rota.schedule_days") == 2


async def test_what_an_end_owes_to_a_schedule_that_is_gone_is_forgotten(
    schedules: Schedules, holder: Connection
) -> None:
    schedules.add()
    await schedules.tick(seconds=61)
    worker = schedules.engine.worker()
    claims = schedules.engine.claim(worker)
    hold(holder)
    schedules.engine.succeed(worker, *claims)
    holder.rollback()
    schedules.call("delete_schedule", "s")
    assert schedules.engine.one("SELECT rota.settle_schedule_ends(10)") == 1
    assert schedules.ledger()[0]["state"] == "succeeded"


# Failing.

FAIL = """
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the disk of s is full' USING ERRCODE = '{code}';
END $$;
CREATE TRIGGER a_fail BEFORE INSERT ON rota.open_runs FOR EACH ROW WHEN (NEW.schedule = 's')
EXECUTE FUNCTION public.fail()
"""


@pytest.mark.parametrize("code", ["40001", "53400", "57014", "XX000"])
async def test_one_that_fails_for_now_holds_up_no_other(
    schedules: Schedules, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "s", "z"):
        schedules.add(name)
    schedules.engine.conn.execute(FAIL.format(code=code))
    await schedules.tick(seconds=61)
    assert [len(schedules.runs(name)) for name in ("a", "s", "z")] == [1, 0, 1]
    assert schedules.row()["parked_at"] is None
    message = "a schedule could not be processed and will be retried"
    assert caplog.messages == [f"{message}  schedule=s error='the disk of s is full'"]
    schedules.engine.conn.execute("DROP TRIGGER a_fail ON rota.open_runs")
    expire_holds(schedules)
    await schedules.tick()
    assert len(schedules.runs()) == 1


async def test_one_that_cannot_be_stored_is_parked_with_a_sentence_and_tried_again(
    schedules: Schedules,
) -> None:
    schedules.add()
    schedules.engine.conn.execute(FAIL.format(code="23514"))
    at, waits = 61.0, []
    for _ in range(9):
        await schedules.tick(seconds=at)
        row = schedules.row()
        assert row["error"] == "its runs could not be enqueued: the disk of s is full"
        waits.append(round((row["retry_at"] - row["parked_at"]).total_seconds()))
        at = (row["retry_at"] - START).total_seconds() + 1
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    schedules.engine.conn.execute("DROP TRIGGER a_fail ON rota.open_runs")
    await schedules.tick(seconds=at)
    row = schedules.row()
    assert (row["parked_at"], row["error"], row["parked_times"]) == (None, None, 0)
    assert len(schedules.runs()) == 1


async def test_the_sleep_ends_when_a_parked_one_is_to_be_tried_again(schedules: Schedules) -> None:
    schedules.add(cron="61 * * * *")
    await schedules.tick()
    schedules.engine.rows("UPDATE rota.schedule_state SET retry_at = rota.now() + interval '5 s'")
    assert 0 < await schedules.ticker.run_once() <= 5


# A fault of the worker.


async def test_what_only_one_worker_cannot_read_is_left_to_others(
    app: rota.App, schedules: Schedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.add()
    schedules.add("other")
    with monkeypatch.context() as broken:
        broken.setattr(Schedule, "read", lambda row: 1 / 0)
        await schedules.tick(seconds=61)
    assert (
        schedules.engine.one("SELECT count(*) FROM rota.schedule_state WHERE parked_at IS NOT NULL")
        == 0
    )
    expire_holds(schedules)
    good = Scheduler(app.database, tick_seconds=1)
    assert await good.tick() == 2
    assert len(schedules.runs()) == len(schedules.runs("other")) == 1


async def test_a_worker_without_zone_data_parks_nothing(
    schedules: Schedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.add("paris", cron="* * * * *", timezone="Europe/Paris")
    schedules.add("utc", cron="* * * * *")
    monkeypatch.setattr(zones, "_lowered", lambda: frozenset({"utc"}))
    monkeypatch.setattr(zones, "ZoneInfo", lambda name: (_ for _ in ()).throw(OSError(name)))
    await schedules.tick(seconds=61)
    assert schedules.row("paris")["parked_at"] is None
    assert len(schedules.runs("utc")) == 1
