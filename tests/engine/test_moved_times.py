"""An instant that somebody sets for the next time: it holds until it comes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine, listen_to_all

Move = Callable[[Schedules, datetime], object]


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work")
    await app.database.open()
    return Schedules(engine, app.database)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def rescheduled(schedules: Schedules, at: datetime) -> None:
    schedules.call("reschedule", "s", at)


def updated(schedules: Schedules, at: datetime) -> None:
    schedules.update(next_run_at=at)


@pytest.fixture(params=[rescheduled, updated])
def move(request: pytest.FixtureRequest) -> Move:
    found: Move = request.param
    return found


STOPS = {
    "pause": ("pause_schedule", "resume_schedule"),
    "disable": ("disable_schedule", "enable_schedule"),
}


def moved(schedules: Schedules) -> list[tuple[str, str | None, float]]:
    return [
        (row["decision"], row["reason"], (row["nominal_at"] - START).total_seconds())
        for row in schedules.ledger()
        if row["is_moved"]
    ]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_it_outlives_a_stop(
    schedules: Schedules, move: Move, stop: str, is_first: bool
) -> None:
    """Given before it, or while it lasts."""
    schedules.add(interval_seconds=600, anchor_at=START)
    await schedules.tick(seconds=10)
    off, on = STOPS[stop]
    if is_first:
        move(schedules, later(900))
    schedules.call(off, "s")
    if not is_first:
        move(schedules, later(900))
    schedules.set_clock(later(300))
    schedules.call(on, "s")
    assert schedules.row()["next_run_at"] == later(900)
    await schedules.tick()
    assert (schedules.row()["moved_to"], schedules.runs()) == (later(900), [])
    await schedules.tick(seconds=901)
    assert moved(schedules) == [("ran", None, 900)]
    assert schedules.words()[0] == ("superseded", "rescheduled", 1)
    assert schedules.row()["moved_to"] is None
    await schedules.tick(seconds=1201)
    assert schedules.times() == [600, 900, 1200]


@pytest.mark.parametrize("stop", STOPS)
async def test_its_time_that_came_during_a_stop_is_skipped_like_others(
    schedules: Schedules, move: Move, stop: str
) -> None:
    schedules.add(interval_seconds=600, anchor_at=START)
    await schedules.tick(seconds=10)
    off, on = STOPS[stop]
    schedules.call(off, "s")
    move(schedules, later(900))
    schedules.set_clock(later(1000))
    schedules.call(on, "s")
    await schedules.tick(seconds=1001)
    assert moved(schedules) == [("skipped", f"{stop}d", 900)]
    assert schedules.runs() == []
    assert schedules.row()["next_run_at"] == later(1200)


async def test_its_time_that_came_during_a_pause_is_owed_to_who_catches_up(
    schedules: Schedules, move: Move
) -> None:
    schedules.add(interval_seconds=6000, anchor_at=START)
    schedules.call("pause_schedule", "s")
    move(schedules, later(900))
    schedules.set_clock(later(1000))
    schedules.call("resume_schedule", "s", True)
    await schedules.tick(seconds=1001)
    assert moved(schedules) == [("caught_up", None, 900)]


async def test_another_timing_takes_it_back(schedules: Schedules, move: Move) -> None:
    schedules.add()
    move(schedules, later(900))
    schedules.update(interval_seconds=600)
    row = schedules.row()
    assert (row["moved_to"], row["next_run_at"]) == (None, None)


async def test_other_edits_leave_it_alone(schedules: Schedules, move: Move) -> None:
    schedules.add()
    move(schedules, later(900))
    schedules.update(payload='{"n": 1}')
    assert schedules.row()["moved_to"] == later(900)


# By plain SQL.


async def test_an_update_is_a_reschedule_with_its_audit(schedules: Schedules, move: Move) -> None:
    schedules.add(overlap="allow")
    await schedules.tick(seconds=61)
    version = schedules.row()["version"]
    listen_to_all(schedules.engine.conn)
    move(schedules, later(310))
    row = schedules.row()
    assert (row["moved_to"], row["next_run_at"]) == (later(310), later(310))
    assert row["version"] == version + 1
    assert [entry["action"] for entry in schedules.engine.audit("s")][-1] == "schedule.rescheduled"
    assert "schedules" in [notify.payload for notify in schedules.engine.conn.notifies(timeout=0.2)]
    await schedules.tick(seconds=311)
    assert schedules.words()[1:] == [("superseded", "rescheduled", 4), ("ran", None, 1)]
    assert len(schedules.runs()) == 2


async def test_an_update_with_other_columns_is_one_too(schedules: Schedules) -> None:
    schedules.add()
    schedules.update(next_run_at=later(310), payload='{"n": 1}')
    await schedules.tick(seconds=311)
    assert moved(schedules) == [("ran", None, 310)]


async def test_a_next_time_that_is_inserted_holds_too(schedules: Schedules) -> None:
    schedules.add(next_run_at=later(310))
    await schedules.tick(seconds=200)
    assert schedules.ledger() == []
    await schedules.tick(seconds=311)
    assert moved(schedules) == [("ran", None, 310)]


async def test_null_computes_it_anew(schedules: Schedules, move: Move) -> None:
    schedules.add()
    move(schedules, later(310))
    schedules.update(next_run_at=None)
    await schedules.tick(seconds=61)
    assert schedules.words() == [("ran", None, 1)]


@pytest.mark.parametrize("at", [START - timedelta(hours=1), "infinity", "-infinity"])
async def test_what_is_no_time_to_come_is_refused(
    schedules: Schedules, move: Move, at: Any
) -> None:
    schedules.add()
    with pytest.raises(psycopg.Error) as raised:
        move(schedules, at)
    assert raised.value.sqlstate == "RO002"
    assert schedules.row()["moved_to"] is None


async def test_an_init_schedule_has_no_time_to_move(schedules: Schedules, move: Move) -> None:
    schedules.engine.rows(
        "INSERT INTO rota.schedules (name, job, init) VALUES ('s', 'work', 'once')"
    )
    with pytest.raises(psycopg.Error, match="no next time"):
        move(schedules, later(60))


async def test_it_brings_back_one_that_was_parked(schedules: Schedules, move: Move) -> None:
    schedules.add(calendar=None)
    schedules.set_state(parked_at=START, error="x")
    move(schedules, later(60))
    assert schedules.row()["parked_at"] is None


async def test_the_past_is_written_down_at_once_whenever_the_next_time_is(
    schedules: Schedules, move: Move
) -> None:
    schedules.add()
    schedules.call("pause_schedule", "s")
    move(schedules, later(86_400))
    schedules.set_clock(later(190))
    schedules.call("resume_schedule", "s")
    await schedules.tick()
    assert schedules.words() == [("skipped", "paused", 3)]
