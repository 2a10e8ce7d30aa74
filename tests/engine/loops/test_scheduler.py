"""The tick against a real database: what it writes, and what changes under it do."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import run_due
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine, listen_to_all

DAY = 86_400.0


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    engine.job("work")
    await app.database.open()
    return Schedules(engine, app.database)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


# What a tick writes.


async def test_runs_are_enqueued_by_priority_then_by_time(schedules: Schedules) -> None:
    for name, priority, first in (("c", 5, 50), ("a", 5, 40), ("d", 1, 58), ("b", 1, 30)):
        schedules.add(name, run_at=later(first), priority=priority)
    await schedules.tick(seconds=59)
    rows = schedules.engine.rows("SELECT schedule FROM rota.open_runs ORDER BY priority, seq")
    assert [row["schedule"] for row in rows] == ["b", "d", "a", "c"]
    rows = schedules.engine.rows("SELECT schedule FROM rota.open_runs ORDER BY seq")
    assert [row["schedule"] for row in rows] == ["b", "d", "a", "c"]


async def test_a_run_and_its_row_know_each_other(schedules: Schedules) -> None:
    schedules.add(
        payload={"n": 1}, queue="mail", priority=2, max_attempts=7, run_tags=["x"],
        run_metadata={"team": "a"}, timeout_seconds=9,
    )  # fmt: skip
    await schedules.tick(seconds=61)
    (run,), (row,) = schedules.runs(), schedules.ledger()
    assert schedules.engine.one("SELECT timeout_seconds FROM rota.open_runs") == 9
    assert (row["run_id"], row["decision"], row["decided_by"]) == (run["id"], "ran", 0)
    assert row["nominal_at"] == run["scheduled_for"] == run["run_at"] == later(60)
    assert run["triggered_by"] == {"type": "scheduler", "schedule": "s", "since": None}
    assert (run["payload"], run["queue"], run["priority"]) == ({"n": 1}, "mail", 2)
    assert (run["max_attempts"], run["tags"], run["metadata"]) == (7, ["x"], {"team": "a"})
    assert (row["claimed_at"], row["enqueued_at"]) == (run["created_at"], run["created_at"])


async def test_the_payload_comes_from_the_schedule_else_from_the_job(schedules: Schedules) -> None:
    schedules.engine.job("other", default_payload={"from": "job"})
    schedules.add("a", "other")
    schedules.add("b", "other", payload={"from": "schedule"})
    schedules.add("c")
    await schedules.tick(seconds=61)
    assert [schedules.runs(name)[0]["payload"] for name in "abc"] == [
        {"from": "job"}, {"from": "schedule"}, {},
    ]  # fmt: skip


async def test_the_handler_is_told(app: rota.App, schedules: Schedules) -> None:
    seen: list[rota.Context] = []

    @app.job
    async def told(ctx: rota.Context) -> None:
        seen.append(ctx)

    schedules.engine.job("told")
    schedules.add("s", "told")
    await schedules.tick(seconds=70)
    await run_due(app)
    await schedules.tick(seconds=600)
    await run_due(app)
    first, second = seen
    assert (first.schedule, first.scheduled_for, first.is_catch_up) == ("s", later(60), False)
    assert first.data_interval == (None, later(60))
    assert first.lateness >= timedelta(seconds=10)
    assert second.scheduled_for == later(600)
    assert second.data_interval == (later(60), later(600))
    schedules.update("s", cron="0 13 * * *", interval_seconds=None)
    await schedules.tick(seconds=3600 + 1800)
    await run_due(app)
    assert seen[2].is_catch_up
    assert seen[2].data_interval == (later(600), later(3600))
    assert seen[2].lateness >= timedelta(minutes=30)


async def test_jitter_moves_the_start(schedules: Schedules) -> None:
    schedules.add(jitter_seconds=40)
    await schedules.tick(seconds=60)
    (run,) = schedules.runs()
    assert (run["run_at"], run["scheduled_for"], run["state"]) == (
        later(80),
        later(60),
        "scheduled",
    )


async def test_a_second_tick_finds_nothing(schedules: Schedules) -> None:
    schedules.add()
    await schedules.tick(seconds=61)
    version = schedules.row()["tick_version"]
    assert await schedules.ticker.tick() == 0
    assert schedules.row()["tick_version"] == version
    assert len(schedules.runs()) == 1


async def test_a_tick_is_no_edit(schedules: Schedules) -> None:
    """Neither audited nor announced: ten workers would wake each other for ever."""
    schedules.add()
    listen_to_all(schedules.engine.conn)
    before = schedules.row()
    await schedules.tick(seconds=61)
    calls = [n.payload for n in schedules.engine.conn.notifies(timeout=0.2)]
    assert "schedules" not in calls
    assert len(schedules.engine.audit("s")) == 1
    after = schedules.row()
    assert (after["updated_at"], after["updated_by"]) == (before["updated_at"], None)


async def test_the_sleep_ends_with_the_next_time(schedules: Schedules) -> None:
    assert await schedules.ticker.run_once() == 15
    schedules.add(interval_seconds=10, anchor_at=START)
    assert 0 < await schedules.ticker.run_once() <= 10
    schedules.call("pause_schedule", "s", until=later(4))
    assert 0 < await schedules.ticker.run_once() <= 4


async def test_what_another_ticker_holds_is_not_asked_for_again_and_again(
    schedules: Schedules,
) -> None:
    schedules.add()
    schedules.engine.rows("SELECT rota.hold_due(10, 14)")
    assert 1 < await schedules.ticker.run_once() <= 14


# Changes between what a tick reads and what it writes.


def disable(schedules: Schedules) -> None:
    schedules.call("disable_schedule", "s")


def pause(schedules: Schedules) -> None:
    schedules.call("pause_schedule", "s", "maintenance")


def edit(schedules: Schedules) -> None:
    schedules.update(cron="0 18 * * *", interval_seconds=None)


def edit_payload(schedules: Schedules) -> None:
    schedules.update(payload='{"new": true}')


def delete(schedules: Schedules) -> None:
    schedules.call("delete_schedule", "s")


def reschedule(schedules: Schedules) -> None:
    schedules.call("reschedule", "s", later(600))


@pytest.mark.parametrize("change", [disable, pause, edit, delete, reschedule])
async def test_nothing_wrong_is_enqueued(
    schedules: Schedules, change: Callable[[Schedules], None]
) -> None:
    schedules.add()
    schedules.add("other")
    schedules.ticker.between = lambda: change(schedules)
    await schedules.tick(seconds=61)
    assert schedules.runs() == []
    assert len(schedules.runs("other")) == 1
    assert not [row for row in schedules.ledger() if row["run_id"]]


async def test_an_edit_in_between_takes_effect_at_once(schedules: Schedules) -> None:
    schedules.add()
    schedules.ticker.between = lambda: edit(schedules)
    await schedules.tick(seconds=61)
    assert schedules.words() == [("superseded", "edited", 1)]
    assert schedules.row()["next_run_at"] == datetime(2026, 6, 1, 18, tzinfo=UTC)


async def test_an_edit_of_the_payload_in_between_runs_with_the_new_one(
    schedules: Schedules,
) -> None:
    schedules.add()
    schedules.ticker.between = lambda: edit_payload(schedules)
    await schedules.tick(seconds=61)
    (run,) = schedules.runs()
    assert (run["payload"], run["scheduled_for"]) == ({"new": True}, later(60))


async def test_a_disabled_one_is_written_down_when_it_is_enabled(schedules: Schedules) -> None:
    schedules.add()
    schedules.ticker.between = lambda: disable(schedules)
    await schedules.tick(seconds=61)
    await schedules.tick(seconds=310)
    assert schedules.ledger() == []
    schedules.call("enable_schedule", "s")
    await schedules.tick(seconds=361)
    assert schedules.words() == [
        ("missed", "disabled", 1), ("skipped", "disabled", 4), ("ran", None, 1),
    ]  # fmt: skip


async def test_a_ticker_that_was_too_slow_writes_nothing(
    app: rota.App, schedules: Schedules
) -> None:
    """The hold ran out, somebody else decided: the cursor and the version have moved."""
    schedules.add()
    slow, schedules.ticker = schedules.ticker, type(schedules.ticker)(app.database, tick_seconds=1)

    def overtake() -> None:
        schedules.engine.rows("DELETE FROM rota.schedule_holds")

    slow.between = overtake
    schedules.set_clock(later(61))

    async def other_ticks(conn: Any, ticks: Any) -> None:
        overtake()
        assert await schedules.ticker.tick() == 1
        await original(conn, ticks)

    original = slow._write
    slow._write = other_ticks  # type: ignore[method-assign]
    assert await slow.tick() == 1
    assert len(schedules.runs()) == len(schedules.ledger()) == 1


# Bad schedules.

BAD: list[tuple[dict[str, Any], str]] = [
    ({"cron": "61 * * * *", "interval_seconds": None}, "is not a minute"),
    ({"cron": "0 0 30 2 *", "interval_seconds": None}, "never matches"),
    ({"requires": "[7]"}, "object"),
    ({"timezone": "posixrules"}, "zone"),
]


@pytest.mark.parametrize(("columns", "message"), BAD)
async def test_a_bad_one_is_parked_and_stops_no_other(
    schedules: Schedules, columns: dict[str, Any], message: str
) -> None:
    schedules.add()
    schedules.add("good")
    for word in ("DISABLE", "ENABLE"):
        if word == "ENABLE":
            schedules.update(**columns)
        for trigger in ("schedules_before", "schedules_requires"):
            change = f"ALTER TABLE rota.schedules {word} TRIGGER {trigger}"
            schedules.engine.conn.execute(change.encode())
    await schedules.tick(seconds=61)
    row = schedules.row()
    assert row["parked_at"] is not None
    assert message in row["error"]
    assert len(schedules.runs("good")) == 1
    assert await schedules.ticker.tick() == 0


async def test_the_next_edit_revives(schedules: Schedules) -> None:
    schedules.add(cron="61 * * * *")
    await schedules.tick(seconds=10)
    assert schedules.row()["parked_at"] is not None
    schedules.update(cron="* * * * *")
    await schedules.tick(seconds=61)
    row = schedules.row()
    assert (row["parked_at"], row["error"]) == (None, None)
    assert schedules.words() == [("ran", None, 1)]


async def test_a_schedule_whose_calendar_is_gone_is_parked(schedules: Schedules) -> None:
    """It must not run on holidays because nobody knows them any more."""
    schedules.engine.rows("INSERT INTO rota.calendars VALUES ('de', '', '{}')")
    schedules.add(calendar="de")
    schedules.engine.rows("DELETE FROM rota.calendars")
    await schedules.tick(seconds=61)
    assert schedules.runs() == []
    assert "calendar" in schedules.row()["error"]


async def test_one_that_cannot_be_written_is_parked_alone(schedules: Schedules) -> None:
    schedules.add()
    schedules.add("good")
    schedules.engine.conn.execute(
        "ALTER TABLE rota.open_runs ADD CHECK (schedule IS DISTINCT FROM 's')"
    )
    await schedules.tick(seconds=61)
    assert "could not be enqueued" in schedules.row()["error"]
    assert schedules.ledger() == []
    assert len(schedules.runs("good")) == 1


# Times without a tick, and clocks that jump.


def test_nothing_asks_the_host_for_the_date() -> None:
    """The database is the clock; what runs in it would trust a host's otherwise."""
    asks = re.compile(r"datetime\.now\(|utcnow\(|time\.time\(|\.today\(")
    found = [
        path
        for part in ("engine", "timing", "jobs", "postgres", "model")
        for path in (Path(rota.__file__).parent / part).rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"catch_up": "none"}, [("missed", "policy none", 71), ("ran", None, 1)]),
        ({"catch_up": "latest"}, [("skipped", "coalesced", 71), ("ran", None, 1)]),
        (
            {"catch_up": "latest", "catch_up_window_seconds": DAY},
            [("missed", "window", 48), ("skipped", "coalesced", 23), ("ran", None, 1)],
        ),
        (
            {"catch_up": "all", "catch_up_window_seconds": DAY},
            [("missed", "window", 48), *[("caught_up", None, 1)] * 23, ("ran", None, 1)],
        ),
        (
            {"catch_up": "all", "overlap": "allow", "catch_up_limit": 3},
            [("missed", "cap", 68), *[("caught_up", None, 1)] * 3, ("ran", None, 1)],
        ),
    ],
)  # fmt: skip
async def test_three_days_of_downtime(
    schedules: Schedules, columns: dict[str, Any], expected: list[Any]
) -> None:
    schedules.add(interval_seconds=3600, anchor_at=START, **columns)
    await schedules.tick(seconds=3 * DAY)
    assert schedules.words() == expected
    assert len(schedules.runs()) == sum(row[0] in ("ran", "caught_up") for row in expected)
    caught_up = [run for run in schedules.runs() if run["triggered_by"]["type"] == "catch_up"]
    assert len(caught_up) == sum(row[0] == "caught_up" for row in expected)


async def test_a_weekly_time_missed_by_two_days_is_made_up_for(schedules: Schedules) -> None:
    schedules.add(cron="0 9 * * 1")
    await schedules.tick(seconds=9 * DAY)
    (run,) = schedules.runs()
    assert schedules.words() == [("caught_up", None, 1)]
    assert run["scheduled_for"] == later(7 * DAY - 3 * 3600)


async def test_all_that_was_missed_runs_one_after_the_other(schedules: Schedules) -> None:
    """By the default overlap, and over several ticks: none is skipped, and no two run at once."""
    schedules.add(cron="0 13 * * *", catch_up="all")
    await schedules.tick(seconds=5 * DAY)
    assert schedules.words() == [("caught_up", None, 1)] * 5
    worker, order = schedules.engine.worker(), []
    for _ in range(5):
        (claim,) = schedules.engine.claim(worker)
        order.append(claim["rest"]["scheduled_for"])
        schedules.engine.succeed(worker, claim)
    assert order == sorted(order)
    assert schedules.engine.claim(worker) == []


async def test_made_up_runs_of_an_earlier_tick_are_not_in_the_way(schedules: Schedules) -> None:
    schedules.add(
        interval_seconds=1, anchor_at=START, catch_up="all", catch_up_limit=5000, grace_seconds=0
    )
    await schedules.tick(seconds=1500)
    assert {row["decision"] for row in schedules.ledger()} == {"caught_up"}
    assert len(schedules.runs()) >= 1500


async def test_three_days_of_downtime_by_the_second(schedules: Schedules) -> None:
    schedules.add(interval_seconds=1, anchor_at=START, catch_up="none")
    await schedules.tick(seconds=3 * DAY)
    rows = schedules.ledger()
    # The clock goes on meanwhile.
    passed = (rows[-1]["through_at"] - START).total_seconds()
    assert sum(row["count"] for row in rows) == passed >= 3 * DAY
    assert [row["decision"] for row in rows][:3] == ["missed", "ran", "skipped"]


async def test_a_long_backlog_delays_no_other(schedules: Schedules) -> None:
    schedules.add(
        interval_seconds=1, anchor_at=START, catch_up="all", catch_up_limit=5000, overlap="allow"
    )
    schedules.add("other", interval_seconds=4000, anchor_at=START)
    schedules.set_clock(later(4000))
    assert await schedules.ticker.tick() == 2
    assert len(schedules.ledger()) == 1000
    assert len(schedules.ledger("other")) == 1
    await schedules.tick()
    assert schedules.times()[:4000] == list(range(1, 4001))


async def test_a_clock_that_steps_back_doubles_nothing(schedules: Schedules) -> None:
    schedules.add()
    await schedules.tick(seconds=125)
    before = schedules.times()
    for seconds in (61, 100, 130):
        await schedules.tick(seconds=seconds)
        assert schedules.times() == before
    await schedules.tick(seconds=181)
    assert schedules.times() == [60, 120, 180]
    assert len(schedules.runs()) == len([r for r in schedules.ledger() if r["run_id"]])


async def test_a_clock_that_steps_ahead_leaves_no_gap(schedules: Schedules) -> None:
    schedules.add(catch_up="none")
    await schedules.tick(seconds=61)
    await schedules.tick(seconds=400 * DAY + 1)
    assert sum(row["count"] for row in schedules.ledger()) == 400 * DAY / 60
    assert [row["decision"] for row in schedules.ledger()] == ["ran", "missed", "skipped"]


async def test_a_cursor_moved_back_by_hand_doubles_nothing(schedules: Schedules) -> None:
    schedules.add(overlap="allow")
    await schedules.tick(seconds=61)
    schedules.set_state(cursor_at=START, next_run_at=None)
    await schedules.tick(seconds=62)
    assert len(schedules.ledger()) == len(schedules.runs()) == 1


async def test_the_zone_of_a_live_schedule_edited(schedules: Schedules) -> None:
    """START is 14:00 in Paris and 08:00 in New York."""
    schedules.add(cron="0 15 * * *", timezone="Europe/Paris")
    await schedules.tick(seconds=3601)
    schedules.update(timezone="America/New_York")
    await schedules.tick(seconds=3602)
    assert schedules.row()["next_run_at"] == datetime(2026, 6, 1, 19, tzinfo=UTC)
    await schedules.tick(seconds=7 * 3600 + 1)
    assert schedules.times() == [3600, 7 * 3600]


async def test_the_end_of_a_month_and_the_leap_day(schedules: Schedules) -> None:
    schedules.set_clock(datetime(2028, 1, 31, tzinfo=UTC))
    schedules.add("last", cron="0 12 L * *")
    schedules.add("leap", cron="0 12 29 2 *")
    await schedules.tick()
    for day in ((1, 31), (2, 28), (2, 29), (3, 1), (3, 31)):
        schedules.set_clock(datetime(2028, *day, 12, 0, 5, tzinfo=UTC))
        await schedules.tick()
    assert [row["nominal_at"].strftime("%m-%d") for row in schedules.ledger("last")] == [
        "01-31", "02-29", "03-31",
    ]  # fmt: skip
    assert [row["nominal_at"].strftime("%m-%d") for row in schedules.ledger("leap")] == ["02-29"]


async def test_partitions_far_back_are_made_for_their_weeks_only(schedules: Schedules) -> None:
    parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'rota.ledger'::regclass"
    schedules.set_clock(START - timedelta(days=1500))
    schedules.add(interval_seconds=3600, anchor_at=START - timedelta(minutes=30))
    schedules.call("disable_schedule", "s")
    schedules.set_clock(START)
    schedules.call("enable_schedule", "s")
    before = schedules.engine.one(parts)
    await schedules.tick()
    (row,) = schedules.ledger()
    assert (row["decision"], row["reason"], row["count"]) == ("skipped", "disabled", 1500 * 24)
    assert schedules.engine.one(parts) == before + 1


async def test_one_row_for_a_time(schedules: Schedules) -> None:
    schedules.add()
    await schedules.tick(seconds=61)
    with pytest.raises(psycopg.errors.UniqueViolation):
        schedules.engine.rows(
            "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason,"
            " tenant, schedule, claimed_at, decided_at) SELECT schedule_id, nominal_at, through_at,"
            " 'missed', 'window', '', 's', now(), now() FROM rota.ledger"
        )
