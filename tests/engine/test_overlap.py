"""Every overlap policy with a run that hangs, and what operators do to schedules."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import rota
from rota.testing import eventually
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work")
    await app.database.open()
    return Schedules(engine, app.database)


async def hang(schedules: Schedules) -> tuple[int, dict[str, Any]]:
    """The first run is claimed and does not end."""
    worker = schedules.engine.worker()
    await schedules.tick(seconds=61)
    return worker, schedules.engine.claim_one(worker)


def held(schedules: Schedules) -> list[str | None]:
    return [run["held_by"] for run in schedules.runs() if run["finished_at"] is None]


@pytest.mark.parametrize(
    ("overlap", "expected", "waiting"),
    [
        ("skip", ["ran", "skipped", "skipped"], [None]),
        ("queue_one", ["ran", "ran", "skipped"], [None, "overlap"]),
        ("queue_all", ["ran", "ran", "ran"], [None, "overlap", "overlap"]),
        ("allow", ["ran", "ran", "ran"], [None, None, None]),
    ],
)
async def test_a_run_that_hangs(
    schedules: Schedules, overlap: str, expected: list[str], waiting: list[str | None]
) -> None:
    schedules.add(overlap=overlap)
    worker, first = await hang(schedules)
    await schedules.tick(seconds=121)
    await schedules.tick(seconds=181)
    assert [row["decision"] for row in schedules.ledger()] == expected
    assert held(schedules) == waiting
    schedules.engine.succeed(worker, first)
    # One at a time, the oldest first: the next is freed when the one before it ends.
    left = len([is_waiting for is_waiting in waiting[1:] if is_waiting])
    for number in range(left):
        (claim,) = schedules.engine.claim(worker, 10)
        assert claim["id"] == schedules.runs()[1 + number]["id"]
        schedules.engine.succeed(worker, claim)
    assert schedules.engine.claim(worker, 10) == [] or overlap == "allow"


async def test_held_runs_are_not_freed_by_the_end_of_another_held_one(
    schedules: Schedules,
) -> None:
    schedules.add(overlap="queue_all")
    worker, first = await hang(schedules)
    await schedules.tick(seconds=121)
    await schedules.tick(seconds=181)
    schedules.engine.cancel(schedules.runs()[1]["id"])
    assert held(schedules) == [None, "overlap"]
    assert schedules.engine.claim(worker, 10) == []
    schedules.engine.succeed(worker, first)
    assert held(schedules) == [None]


async def test_a_run_that_ends_while_the_tick_thinks_leaves_nobody_held(
    schedules: Schedules,
) -> None:
    schedules.add(overlap="queue_one")
    worker, first = await hang(schedules)
    schedules.ticker.between = lambda: schedules.engine.succeed(worker, first)
    await schedules.tick(seconds=121)
    assert held(schedules) == [None]


async def test_more_may_run_at_once(schedules: Schedules) -> None:
    schedules.add(overlap="queue_all", max_concurrent_runs=2)
    worker, first = await hang(schedules)
    for seconds in (121, 181, 241):
        await schedules.tick(seconds=seconds)
    assert held(schedules) == [None, None, "overlap", "overlap"]
    schedules.engine.succeed(worker, first)
    assert held(schedules) == [None, None, "overlap"]


async def test_an_edit_that_makes_room_frees(schedules: Schedules) -> None:
    schedules.add(overlap="queue_all")
    await hang(schedules)
    await schedules.tick(seconds=121)
    schedules.update(overlap="allow")
    await schedules.tick(seconds=122)
    assert held(schedules) == [None, None]


async def test_a_held_run_with_jitter_waits_for_both(schedules: Schedules) -> None:
    """For the run before it, and for its own start."""
    schedules.add(overlap="queue_one", jitter_seconds=40)
    worker = schedules.engine.worker()
    await schedules.tick(seconds=61)
    schedules.set_clock(START + timedelta(seconds=90))
    schedules.engine.promote()
    first = schedules.engine.claim_one(worker)
    await schedules.tick(seconds=121)
    second = schedules.runs()[1]
    assert (second["state"], second["held_by"]) == ("queued", "overlap")
    schedules.engine.succeed(worker, first)
    assert schedules.runs()[1]["state"] == "scheduled"
    schedules.set_clock(START + timedelta(seconds=141))
    schedules.engine.promote()
    assert schedules.engine.claim_one(worker)["id"] == second["id"]


async def test_cancel_running_really_cancels_and_the_new_one_runs(
    app: rota.App, schedules: Schedules
) -> None:
    started: list[int] = []
    cancelled: list[int] = []

    @app.job(max_attempts=1)
    async def hangs(ctx: rota.Context) -> None:
        started.append(ctx.run_id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(ctx.run_id)
            raise

    schedules.engine.job("hangs")
    async with app.worker():
        schedules.add(job="hangs", overlap="cancel_running")
        await schedules.tick(seconds=61)
        await eventually(lambda: len(started) == 1)
        await schedules.tick(seconds=121)
        await eventually(lambda: len(started) == 2)
        first, second = (run["id"] for run in schedules.runs())
        assert (started, cancelled) == ([first, second], [first])
        assert schedules.engine.state(first) == "cancelled"
        assert "next run of its schedule" in schedules.engine.run(first)["end_reason"]
        schedules.engine.cancel(second)
        await eventually(lambda: schedules.engine.state(second) == "cancelled")
    rows = schedules.ledger()
    assert [(row["decision"], row["state"]) for row in rows] == [("ran", "cancelled")] * 2


async def test_cancel_running_keeps_the_newest_only(schedules: Schedules) -> None:
    schedules.add(overlap="cancel_running")
    worker, first = await hang(schedules)
    await schedules.tick(seconds=121)
    await schedules.tick(seconds=181)
    states = [run["state"] for run in schedules.runs()]
    assert states == ["running", "cancelled", "queued"]
    schedules.engine.fail(worker, first, state="cancelled", attempt_state="cancelled")
    assert schedules.engine.claim_one(worker)["id"] == schedules.runs()[2]["id"]


# How runs end.


async def test_the_end_of_a_run_lands_in_its_row_and_its_schedule(schedules: Schedules) -> None:
    schedules.add()
    worker, claim = await hang(schedules)
    schedules.engine.succeed(worker, claim)
    (row,) = schedules.ledger()
    assert (row["state"], row["success"], row["error"]) == ("succeeded", True, None)
    assert row["duration_ms"] is not None
    assert row["lateness_ms"] >= 1000
    schedule = schedules.row()
    assert (schedule["last_run_success"], schedule["last_success_for"]) == (True, row["nominal_at"])
    assert schedule["last_run_at"] == schedule["last_success_at"] is not None
    assert (schedule["run_count"], schedule["failures_in_a_row"]) == (1, 0)
    await schedules.tick(seconds=121)
    schedules.engine.fail(worker, schedules.engine.claim_one(worker), "boom")
    row = schedules.ledger()[1]
    assert (row["state"], row["success"], row["error"]) == ("failed", False, "boom")
    schedule = schedules.row()
    assert (schedule["last_run_success"], schedule["failures_in_a_row"], schedule["run_count"]) == (
        False,
        1,
        2,
    )
    assert schedule["last_success_for"] == schedules.ledger()[0]["nominal_at"]


async def test_the_row_outlives_the_run_and_a_retry_is_written_into_it(
    schedules: Schedules,
) -> None:
    schedules.add()
    worker, claim = await hang(schedules)
    schedules.engine.fail(worker, claim)
    schedules.engine.retry(claim["id"])
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    assert [(row["state"], row["success"]) for row in schedules.ledger()] == [("succeeded", True)]
    schedules.engine.rows("DELETE FROM rota.ended_runs")
    assert len(schedules.ledger()) == 1


async def test_repeated_failure_pauses(schedules: Schedules) -> None:
    schedules.add(pause_after_failures=2)
    worker = schedules.engine.worker()
    for number in (1, 2):
        await schedules.tick(seconds=60 * number + 1)
        schedules.engine.fail(worker, schedules.engine.claim_one(worker))
    schedule = schedules.row()
    assert (schedule["paused_by"], schedule["pause_reason"]) == ("rota", "2 runs failed in a row")
    await schedules.tick(seconds=301)
    assert len(schedules.runs()) == 2
    schedules.call("resume_schedule", "s")
    await schedules.tick(seconds=361)
    schedules.engine.fail(worker, schedules.engine.claim_one(worker))
    assert schedules.row()["paused_at"] is None
    assert schedules.words()[2:] == [("skipped", "paused", 3), ("ran", None, 1)]


async def test_an_end_may_pause_a_schedule_whose_calendar_is_gone(schedules: Schedules) -> None:
    """The check of edits must not fail the end of a run."""
    schedules.engine.rows("INSERT INTO rota.calendars VALUES ('de', '', '{}')")
    schedules.add(pause_after_failures=1, calendar="de")
    worker, claim = await hang(schedules)
    schedules.engine.rows("DELETE FROM rota.calendars")
    assert schedules.engine.fail(worker, claim) == [claim["id"]]
    assert schedules.row()["paused_at"] is not None


async def test_intervals_from_the_end_of_the_last_run(schedules: Schedules) -> None:
    schedules.add(every_from="end")
    worker, claim = await hang(schedules)
    assert schedules.engine.one(
        "SELECT next_run_at IS NULL FROM rota.schedule_status WHERE name = 's'"
    )
    await schedules.tick(seconds=600)
    assert len(schedules.ledger()) == 1
    schedules.engine.succeed(worker, claim)
    next_at = schedules.row()["next_run_at"]
    assert 659 < (next_at - START).total_seconds() < 670
    await schedules.tick(seconds=680)
    assert [row["nominal_at"] for row in schedules.ledger()][1] == next_at


async def test_intervals_from_the_end_go_on_when_the_clock_went_back(schedules: Schedules) -> None:
    schedules.add(every_from="end")
    worker = schedules.engine.worker()
    await schedules.tick(seconds=4000)
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    await schedules.tick(seconds=4100)
    claim = schedules.engine.claim_one(worker)
    schedules.set_clock(START + timedelta(seconds=3900))
    schedules.engine.succeed(worker, claim)
    assert schedules.engine.one(
        "SELECT next_run_at IS NOT NULL FROM rota.schedule_status WHERE name = 's'"
    )


# Requirements.


async def test_a_requirement_is_asked_at_the_tick(schedules: Schedules) -> None:
    schedules.add("first", overlap="allow")
    schedules.add("second", requires='[{"name": "first", "within_seconds": 100}]')
    worker = schedules.engine.worker()
    await schedules.tick(seconds=61)
    (row,) = schedules.ledger("second")
    assert (row["reason"], row["details"]) == ("requirement", {"unmet": ["first"]})
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    await schedules.tick(seconds=121)
    assert [row["decision"] for row in schedules.ledger("second")] == ["skipped", "ran"]


async def test_a_disabled_job_skips(schedules: Schedules) -> None:
    schedules.add()
    schedules.engine.rows("UPDATE rota.jobs SET is_enabled = false")
    await schedules.tick(seconds=61)
    assert schedules.words() == [("skipped", "job_disabled", 1)]
