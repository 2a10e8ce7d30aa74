"""A run that somebody triggered belongs to its schedule, and takes none of its times."""

from __future__ import annotations

import pytest

import rota
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work")
    await app.database.open()
    return Schedules(engine, app.database)


def trigger(schedules: Schedules, name: str = "s") -> int:
    answer = schedules.engine.one("SELECT rota.trigger_schedule(%s)", name)
    return int(answer["run_id"])


async def test_it_is_listed_as_the_schedules_and_has_no_nominal_time(schedules: Schedules) -> None:
    schedules.add()
    number = trigger(schedules)
    run = schedules.engine.run(number)
    assert (run["schedule"], run["scheduled_for"]) == ("s", None)
    assert run["triggered_by"]["type"] == "manual"
    assert schedules.ledger() == []
    assert schedules.row()["run_count"] == 0


async def test_status_counts_it(schedules: Schedules) -> None:
    schedules.add()
    worker = schedules.engine.worker()
    trigger(schedules)
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    row = schedules.row()
    assert (row["last_run_success"], row["last_success_at"] is not None) == (True, True)
    assert row["last_success_for"] is None
    (status,) = schedules.engine.rows("SELECT * FROM rota.schedule_status WHERE name = 's'")
    assert (status["total_runs"], status["success_rate_percent"]) == (1, 100)


@pytest.mark.parametrize(
    ("overlap", "decisions"), [("skip", ["skipped"]), ("queue_one", ["ran"]), ("allow", ["ran"])]
)
async def test_overlap_counts_it(schedules: Schedules, overlap: str, decisions: list[str]) -> None:
    schedules.add(overlap=overlap)
    worker = schedules.engine.worker()
    trigger(schedules)
    claim = schedules.engine.claim_one(worker)
    await schedules.tick(seconds=61)
    assert [row["decision"] for row in schedules.ledger()] == decisions
    waiting = schedules.engine.rows(
        "SELECT held_by FROM rota.runs WHERE schedule = 's' AND scheduled_for IS NOT NULL"
    )
    assert waiting == ([{"held_by": "overlap"}] if overlap == "queue_one" else waiting)
    schedules.engine.succeed(worker, claim)
    if overlap == "queue_one":
        assert schedules.engine.claim_one(worker)["id"] != claim["id"], "its end frees who waits"


async def test_cancel_running_cancels_it_when_the_next_one_is_due(schedules: Schedules) -> None:
    schedules.add(overlap="cancel_running")
    worker = schedules.engine.worker()
    number = trigger(schedules)
    schedules.engine.claim_one(worker)
    await schedules.tick(seconds=61)
    (due,) = [run for run in schedules.runs() if run["id"] != number]
    assert (due["state"], due["scheduled_for"] is not None) == ("queued", True)
    asked = schedules.engine.rows("SELECT run_id FROM rota.cancel_requests")
    assert [row["run_id"] for row in asked] == [number]


async def test_one_counted_from_the_end_does_not_move(schedules: Schedules) -> None:
    schedules.add(every_from="end")
    worker = schedules.engine.worker()
    await schedules.tick(seconds=61)
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    due = schedules.row()["next_run_at"]
    trigger(schedules)
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    assert schedules.row()["next_run_at"] == due


async def test_one_counted_from_the_end_waits_for_its_own_run_only(schedules: Schedules) -> None:
    """An edit while the triggered run goes on: nobody will say when the next time is but the
    tick."""
    schedules.add(every_from="end")
    worker = schedules.engine.worker()
    trigger(schedules)
    claim = schedules.engine.claim_one(worker)
    schedules.engine.rows("UPDATE rota.schedules SET interval_seconds = 90 WHERE name = 's'")
    await schedules.tick(seconds=10)
    assert schedules.engine.one(
        "SELECT next_run_at IS NOT NULL FROM rota.schedule_status WHERE name = 's'"
    )
    schedules.engine.succeed(worker, claim)
    due = schedules.row()["next_run_at"]
    assert 80 < (due - START).total_seconds() < 110


async def test_its_failure_pauses_nobody_and_its_success_ends_a_row(schedules: Schedules) -> None:
    schedules.add(pause_after_failures=2, overlap="allow")
    worker = schedules.engine.worker()
    await schedules.tick(seconds=61)
    schedules.engine.fail(worker, schedules.engine.claim_one(worker))
    trigger(schedules)
    schedules.engine.fail(worker, schedules.engine.claim_one(worker))
    assert (schedules.row()["failures_in_a_row"], schedules.row()["paused_at"]) == (1, None)
    assert schedules.row()["last_run_success"] is False
    trigger(schedules)
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    assert schedules.row()["failures_in_a_row"] == 0


async def test_a_requirement_is_met_by_it(schedules: Schedules) -> None:
    schedules.add("first", overlap="allow")
    schedules.add("second", requires='[{"name": "first", "within_seconds": 100}]')
    worker = schedules.engine.worker()
    trigger(schedules, "first")
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    await schedules.tick(seconds=61)
    assert [row["decision"] for row in schedules.ledger("second")] == ["ran"]


async def test_it_runs_while_another_does(schedules: Schedules) -> None:
    schedules.add()
    worker = schedules.engine.worker()
    await schedules.tick(seconds=61)
    schedules.engine.claim_one(worker)
    number = trigger(schedules)
    assert schedules.engine.claim_one(worker)["id"] == number
