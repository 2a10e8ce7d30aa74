"""What people do to schedules by SQL, and what the ledger says afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from tests.conftest import load_config
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine


class Ticked(Schedules):
    """For tests without an event loop."""

    runner: asyncio.Runner

    def at(self, seconds: float) -> None:
        self.runner.run(self.tick(seconds=seconds))


@pytest.fixture
def schedules(engine: Engine, database_url: str) -> Iterator[Ticked]:
    app = rota.App(config=load_config(database_url, {}))
    with asyncio.Runner() as runner:
        runner.run(app.database.open())
        found = Ticked(engine, app.database)
        found.runner = runner
        yield found
        runner.run(app.close())


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


# The first time.


def test_it_owes_nothing_from_before_it_was_made(schedules: Ticked) -> None:
    schedules.add(cron="* * * * *")
    schedules.at(59)
    assert schedules.ledger() == []
    schedules.at(60)
    assert schedules.times() == [60]


@pytest.mark.parametrize(("ago", "times"), [(30, [-30]), (59, [-59]), (90, []), (4000, [])])
def test_a_start_a_moment_ago_fires_at_once_an_older_one_anchors(
    schedules: Ticked, ago: float, times: list[float]
) -> None:
    schedules.add(interval_seconds=7200, start_at=later(-ago))
    schedules.at(1)
    assert schedules.times() == times
    assert schedules.row()["next_run_at"] == later(7200 - ago)


@pytest.mark.parametrize(("ago", "count"), [(30, 1), (4000, 0), (-30, 0)])
def test_once(schedules: Ticked, ago: float, count: int) -> None:
    schedules.add(run_at=later(-ago))
    schedules.at(1)
    assert len(schedules.runs()) == count
    assert (schedules.row()["finished_at"] is not None) is (ago > 0)


def test_a_finished_one_does_nothing_until_it_is_edited(schedules: Ticked) -> None:
    schedules.add(max_runs=1)
    schedules.at(61)
    schedules.at(601)
    assert len(schedules.ledger()) == 1
    schedules.update(max_runs=5)
    schedules.at(662)
    assert schedules.times() == [60, 660]


def test_a_finished_one_may_be_deleted_with_its_end(schedules: Ticked) -> None:
    schedules.add(run_at=later(60), delete_when_finished=True)
    schedules.at(61)
    assert schedules.engine.one("SELECT count(*) FROM rota.schedules WHERE NOT is_system") == 0
    assert schedules.words() == [("ran", None, 1)]


# Pauses.


def test_a_pause_with_an_end_ends_by_itself(schedules: Ticked) -> None:
    schedules.add()
    schedules.at(61)
    schedules.call("pause_schedule", "s", "maintenance", later(330), actor="ann")
    schedules.at(301)
    assert len(schedules.ledger()) == 1
    schedules.at(362)
    assert schedules.words() == [
        ("ran", None, 1),
        ("skipped", "paused", 4),
        ("skipped", "overlap", 1),
    ]
    row = schedules.row()
    assert (row["paused_at"], row["paused_until"], row["pause_reason"]) == (None, None, None)
    actions = [(it["action"], it["actor"]) for it in schedules.engine.audit("s")]
    assert actions[1:] == [("schedule.paused", "ann"), ("schedule.resumed", "rota")]


@pytest.mark.parametrize("stop", ["pause", "disable"])
def test_what_gave_way_to_a_later_time_is_not_missed(schedules: Ticked, stop: str) -> None:
    schedules.add()
    schedules.at(30)
    schedules.call("reschedule", "s", later(600))
    schedules.set_clock(later(310))
    schedules.call(f"{stop}_schedule", "s")
    schedules.call({"pause": "resume_schedule", "disable": "enable_schedule"}[stop], "s")
    schedules.at(311)
    assert schedules.words() == [("superseded", "rescheduled", 5)]
    schedules.at(600)
    assert schedules.words()[1:] == [("superseded", "rescheduled", 4), ("ran", None, 1)]


@pytest.mark.parametrize("stop", ["disable", "pause"])
def test_a_pause_that_no_tick_has_ended_is_over(schedules: Ticked, stop: str) -> None:
    schedules.add()
    schedules.call("pause_schedule", "s", until=later(120))
    schedules.set_clock(later(310))
    schedules.call(f"{stop}_schedule", "s")
    assert (schedules.row()["paused_at"] >= later(310)) == (stop == "pause")
    schedules.set_clock(later(430))
    schedules.call({"pause": "resume_schedule", "disable": "enable_schedule"}[stop], "s")
    schedules.at(431)
    assert schedules.words() == [
        ("skipped", "paused", 2),
        ("missed", f"{stop}d", 3),
        ("skipped", f"{stop}d", 2),
    ]


def test_a_pause_without_an_end_waits(schedules: Ticked) -> None:
    schedules.add(overlap="allow")
    schedules.call("pause_schedule", "s")
    schedules.at(86_401)
    assert schedules.ledger() == []
    schedules.call("resume_schedule", "s")
    schedules.at(86_402)
    assert schedules.words() == [("skipped", "paused", 1440)]
    schedules.at(86_461)
    assert schedules.words()[-1] == ("ran", None, 1)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", [("missed", "policy none", 4)]),
        ("latest", [("skipped", "coalesced", 4)]),
        ("all", [("caught_up", None, 1)] * 4),
    ],
)
def test_resume_with_catch_up_leaves_it_to_the_policy(
    schedules: Ticked, policy: str, expected: list[Any]
) -> None:
    schedules.add(catch_up=policy, overlap="allow")
    schedules.call("pause_schedule", "s")
    schedules.at(310)
    schedules.call("resume_schedule", "s", True)
    schedules.at(311)
    assert schedules.words() == [*expected, ("ran", None, 1)]


def test_resuming_what_is_not_paused_writes_nothing(schedules: Ticked) -> None:
    schedules.add()
    before = schedules.row()
    schedules.call("resume_schedule", "s")
    assert schedules.row() == before


def test_a_pause_ends_in_the_future(schedules: Ticked) -> None:
    schedules.add()
    with pytest.raises(psycopg.Error, match="in the future"):
        schedules.call("pause_schedule", "s", until=later(-1))


# Triggers.


@pytest.mark.parametrize("state", ["live", "paused", "disabled"])
def test_trigger_now_never_moves_the_cursor(schedules: Ticked, state: str) -> None:
    schedules.add(payload={"n": 1})
    schedules.at(61)
    if state != "live":
        schedules.call("pause_schedule" if state == "paused" else "disable_schedule", "s")
    before = schedules.row()
    answer = schedules.call("trigger_schedule", "s", actor="ann")
    assert schedules.row() == before
    run = schedules.engine.run(answer["run_id"])
    assert run["triggered_by"] == {"type": "manual", "actor": "ann", "schedule": "s"}
    assert run["payload"] == {"n": 1}
    assert len(schedules.ledger()) == 1
    again = schedules.call("trigger_schedule", "s", '{"n": 2}')
    assert schedules.engine.run(again["run_id"])["payload"] == {"n": 2}
    assert answer | {"run_id": 0} == {
        "success": True, "run_id": 0, "job": "work", "job_name": "work", "schedule": "s",
    }  # fmt: skip


@pytest.mark.parametrize(
    "function", ["trigger_schedule", "pause_schedule", "resume_schedule", "enable_schedule",
                 "disable_schedule", "delete_schedule"],
)  # fmt: skip
def test_an_unknown_name_is_an_error(schedules: Ticked, function: str) -> None:
    with pytest.raises(psycopg.Error, match='no schedule is named "nobody"') as error:
        schedules.call(function, "nobody")
    assert error.value.sqlstate == "RO007"


# Reschedule.


def test_reschedule_later(schedules: Ticked) -> None:
    schedules.add(overlap="allow")
    schedules.at(61)
    schedules.call("reschedule", "s", later(290), actor="ann")
    schedules.at(241)
    assert len(schedules.ledger()) == 1
    schedules.at(301)
    assert schedules.words() == [
        ("ran", None, 1), ("superseded", "rescheduled", 3), ("ran", None, 1), ("ran", None, 1),
    ]  # fmt: skip
    assert schedules.times() == [60, 120, 290, 300]
    assert [row["is_moved"] for row in schedules.ledger()] == [False, False, True, False]
    assert schedules.row()["moved_to"] is None
    last = schedules.engine.audit("s")[-1]
    assert (last["action"], last["actor"]) == ("schedule.rescheduled", "ann")


def test_reschedule_earlier(schedules: Ticked) -> None:
    schedules.add(interval_seconds=3600, anchor_at=START, overlap="allow")
    schedules.call("reschedule", "s", later(600))
    schedules.at(601)
    schedules.at(3601)
    assert schedules.times() == [600, 3600]
    assert [row["decision"] for row in schedules.ledger()] == ["ran", "ran"]


def test_reschedule_a_single_time_earlier_runs_it_once(schedules: Ticked) -> None:
    schedules.add(run_at=later(3600))
    schedules.call("reschedule", "s", later(600))
    schedules.at(601)
    schedules.at(3601)
    assert schedules.words() == [("ran", None, 1), ("superseded", "rescheduled", 1)]
    assert schedules.row()["finished_at"] is not None


def test_reschedule_into_the_past_is_refused(schedules: Ticked) -> None:
    schedules.add()
    with pytest.raises(psycopg.Error, match="in the future"):
        schedules.call("reschedule", "s", later(-600))


# Edits.


def test_an_edit_takes_effect_at_once_and_is_audited(schedules: Ticked) -> None:
    schedules.add()
    schedules.at(61)
    schedules.set_clock(later(190))
    schedules.update(interval_seconds=100)
    schedules.at(200)
    assert schedules.words() == [("ran", None, 1), ("superseded", "edited", 2)]
    assert 289 < (schedules.row()["next_run_at"] - START).total_seconds() < 320
    last = schedules.engine.audit("s")[-1]
    assert (last["action"], last["before"]) == ("schedule.updated", {"interval_seconds": 60})
    assert last["after"] == {"interval_seconds": 100}


def test_edits_on_edits_keep_every_time(schedules: Ticked) -> None:
    schedules.add(cron="* * * * *")
    for seconds, change in (
        (150, {"cron": "*/2 * * * *"}), (390, {"is_enabled": False}), (630, {"is_enabled": True}),
        (700, {"cron": "*/3 * * * *"}), (750, {"payload": '{"a": 1}'}),
    ):  # fmt: skip
        schedules.set_clock(later(seconds))
        schedules.update(**change)
    schedules.at(901)
    assert list(zip(schedules.times(), schedules.words(), strict=True)) == [
        (60, ("superseded", "edited", 2)),
        (240, ("missed", "disabled", 2)),
        (480, ("skipped", "disabled", 2)),
        (720, ("skipped", "coalesced", 1)),
        (900, ("ran", None, 1)),
    ]


def test_a_bad_expression_that_is_corrected_before_any_tick(schedules: Ticked) -> None:
    schedules.add(cron="* * * * *")
    schedules.update(cron="61 * * * *")
    schedules.at(90)
    assert schedules.row()["parked_at"] is not None
    schedules.update(cron="* * * * *")
    schedules.at(121)
    assert schedules.row()["parked_at"] is None
    assert schedules.times() == [120]


def test_a_pause_by_plain_sql_starts_the_count_of_failures_anew(schedules: Ticked) -> None:
    schedules.add()
    schedules.update(paused_at=later(0))
    schedules.set_state(failures_in_a_row=5)
    schedules.update(paused_at=None)
    assert schedules.row()["failures_in_a_row"] == 0


# The end.


def test_delete_keeps_the_ledger_and_what_runs(schedules: Ticked) -> None:
    schedules.add()
    schedules.at(61)
    assert schedules.call("delete_schedule", "s") == 0
    assert schedules.words() == [("ran", None, 1)]
    worker = schedules.engine.worker()
    schedules.engine.succeed(worker, schedules.engine.claim_one(worker))
    assert [row["state"] for row in schedules.ledger()] == ["succeeded"]
    schedules.at(121)
    assert len(schedules.ledger()) == 1


def test_delete_with_what_waits(schedules: Ticked) -> None:
    schedules.add(overlap="queue_all")
    schedules.at(61)
    schedules.at(121)
    assert schedules.call("delete_schedule", "s", True) == 2
    assert {run["state"] for run in schedules.runs()} == {"cancelled"}


def test_a_new_schedule_of_the_same_name_has_its_own_ledger(schedules: Ticked) -> None:
    schedules.add()
    schedules.at(61)
    schedules.call("delete_schedule", "s")
    schedules.add(anchor_at=START, interval_seconds=60, cursor_at=START)
    schedules.at(62)
    assert schedules.times() == [60, 60]


# What the table refuses.


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"interval_seconds": 0.5}, "interval_seconds must be at least 1"),
        ({"interval_seconds": -1}, "interval_seconds must be at least 1"),
        ({"cron": "* * * * *", "interval_seconds": 60}, "exactly one of cron"),
        ({"cron": None}, "exactly one of cron"),
        ({"cron": "* * * *"}, "does not have 5 fields"),
        ({"cron": "* * * * * *"}, "does not have 5 fields"),
        ({"cron": "* * * * *", "timezone": "Europe/Nowhere"}, "unknown time zone"),
        ({"cron": "* * * * *", "timezone": "EST+3"}, "unknown time zone"),
        ({"cron": "* * * * *", "calendar": "none"}, "no calendar"),
        ({"cron": "* * * * *", "every_from": "end"}, "every_from 'end' requires"),
        ({"cron": "* * * * *", "max_runs": 0}, "max_runs"),
        ({"cron": "* * * * *", "overlap": "maybe"}, "overlap"),
        ({"cron": "* * * * *", "priority": 10}, "priority"),
        ({"cron": "* * * * *", "payload": "[]"}, "payload"),
        ({"cron": "* * * * *", "start_at": START, "end_at": START}, "is not after start_at"),
    ],
)
def test_a_wrong_schedule_is_refused(schedules: Ticked, columns: dict[str, Any], told: str) -> None:
    with pytest.raises(psycopg.Error, match=told):
        schedules.add(**columns)


def test_an_unknown_job_is_refused(schedules: Ticked) -> None:
    with pytest.raises(psycopg.Error, match="nothing"):
        schedules.add(job="nothing")


def test_names_are_unique_in_a_tenant(schedules: Ticked) -> None:
    schedules.add()
    schedules.add(tenant="acme")
    with pytest.raises(psycopg.errors.UniqueViolation):
        schedules.add()


def test_the_clock_starts_where_it_was_put(schedules: Ticked) -> None:
    assert schedules.engine.one("SELECT rota.now()") >= START.astimezone(UTC)


@pytest.mark.parametrize("zone", ["Mars/X", "EST+3", "", "Europe/Nowhere"])
def test_a_calendar_in_no_zone_is_refused(conn: psycopg.Connection[Any], zone: str) -> None:
    definition = json.dumps({"timezone": zone, "weekends": True})
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("INSERT INTO rota.calendars (name, definition) VALUES ('c', %s)", [definition])
    assert caught.value.sqlstate == "RO002"
    conn.execute("INSERT INTO rota.calendars (name, definition) VALUES ('c', '{}')")
    with pytest.raises(psycopg.Error, match="unknown time zone"):
        conn.execute("UPDATE rota.calendars SET definition = %s", [definition])


def test_refusals_without_a_hint_have_none_and_infinity_is_no_time(
    conn: psycopg.Connection[Any],
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('plain')")
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('p', 'plain', '0 8 * * *')")
    with pytest.raises(psycopg.Error) as refused:
        conn.execute("UPDATE rota.schedules SET calendar = 'none' WHERE name = 'p'")
    assert refused.value.diag.message_hint is None
    with pytest.raises(psycopg.Error, match="9999-12-30, UTC\\), not infinity") as refused:
        conn.execute("UPDATE rota.schedules SET next_run_at = 'infinity' WHERE name = 'p'")
    assert "rota.pause_schedule" in (refused.value.diag.message_hint or "")
