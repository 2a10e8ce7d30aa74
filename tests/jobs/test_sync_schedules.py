"""Schedules that are declared with their job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rota
from tests.jobs.conftest import MakeCode, Setting

AT = datetime(2030, 1, 1, tzinfo=UTC)


def declare(*schedules: Any, **arguments: Any) -> dict[str, Any]:
    return {"schedules": list(schedules), **arguments}


def test_every_timing_becomes_a_row(code: MakeCode) -> None:
    one = code(
        a=declare(
            rota.cron("0 8 * * *", timezone="Europe/Paris", catch_up="all", payload={"n": 3}),
            rota.every(timedelta(minutes=1), every_from="end", enabled=False),
            rota.once(AT, name="one day", requires=[rota.after("b", within=60)]),
            rota.on_start("release", priority=1),
            payload={"n": 2},
        ),
        b={},
    ).open()
    cron, every, once, init = (one.schedule(name) for name in ("a", "a-2", "one day", "a-4"))
    assert (cron["cron"], cron["timezone"], cron["catch_up"]) == (
        "0 8 * * *",
        "Europe/Paris",
        "all",
    )
    assert (cron["payload"], one.job("a")["default_payload"]) == ({"n": 3}, {"n": 2})
    assert (every["interval_seconds"], every["every_from"], every["is_enabled"]) == (
        60,
        "end",
        False,
    )
    assert once["run_at"] == AT
    assert [it["name"] for it in once["requires"]] == ["b"]
    assert (init["init"], init["priority"]) == ("release", 1)
    assert {it["origin"] for it in (cron, every, once, init)} == {"definition"}


def test_untouched_fields_follow_and_touched_ones_stay(code: MakeCode) -> None:
    old = code(a=declare(rota.cron("0 8 * * *", overlap="allow"))).open()
    old.rows("UPDATE rota.schedules SET timezone = 'Europe/Paris' WHERE name = 'a'")
    new = code(a=declare(rota.cron("0 9 * * *", timezone="Asia/Tokyo"))).open()
    row = new.schedule("a")
    assert (row["cron"], row["timezone"], row["overlap"]) == ("0 9 * * *", "Europe/Paris", "skip")
    (drift,) = new.app.jobs.sync.plan()
    assert (drift.field, drift.code, drift.stored) == ("timezone", "Asia/Tokyo", "Europe/Paris")
    new.app.jobs.sync.sync_definitions(force=["a"])
    assert new.schedule("a")["timezone"] == "Asia/Tokyo"
    assert new.app.jobs.sync.plan() == []


def test_an_operators_timing_stays_whole(code: MakeCode) -> None:
    old = code(a=declare(rota.cron("0 8 * * *"))).open()
    old.rows("UPDATE rota.schedules SET cron = NULL, interval_seconds = 90 WHERE name = 'a'")
    new = code(a=declare(rota.on_start(description="At the start."))).open()
    row = new.schedule("a")
    assert (row["interval_seconds"], row["init"], row["description"]) == (90, None, "At the start.")


def test_disabled_and_paused_outlive_a_deployment(code: MakeCode) -> None:
    old = code(a=declare(rota.every(60)), b=declare(rota.every(60))).open()
    old.rows("SELECT rota.disable_schedule('a')")
    old.rows("SELECT rota.pause_schedule('b')")
    new = code(a=declare(rota.every(61)), b=declare(rota.every(61))).open()
    assert (new.schedule("a")["is_enabled"], new.schedule("a")["interval_seconds"]) == (False, 61)
    assert new.schedule("b")["paused_at"] is not None


def test_one_that_an_operator_deleted_stays_deleted_until_forced(code: MakeCode) -> None:
    old = code(a=declare(rota.every(60))).open()
    old.rows("SELECT rota.delete_schedule('a', actor => 'ada')")
    new = code(a=declare(rota.every(61))).open()
    assert new.rows("SELECT FROM rota.schedules WHERE name = 'a'") == []
    (drift,) = new.app.jobs.sync.plan()
    assert (drift.kind, drift.change, drift.changed_by) == ("schedule", "deleted", "ada")
    new.app.jobs.sync.sync_definitions()
    assert new.rows("SELECT FROM rota.schedules WHERE name = 'a'") == []
    new.app.jobs.sync.sync_definitions(force=["a"])
    assert new.schedule("a")["interval_seconds"] == 61
    assert new.app.jobs.sync.plan() == []


def test_what_is_kept_out_is_remembered_for_longer_than_a_ledger(code: MakeCode) -> None:
    app = code(a=declare(rota.every(60)), b=declare(rota.every(60))).open()
    app.rows("SELECT rota.delete_schedule('a', actor => 'ada')")
    app.app.jobs.sync.sync_definitions(force=["a"])
    app.rows("SELECT rota.delete_schedule('a', actor => 'bob')")
    app.rows("UPDATE rota.deleted_schedules SET deleted_at = deleted_at - interval '500 days'")
    app.rows("SELECT rota.delete_schedule('b', actor => 'bob')")
    rows = app.rows("SELECT name, deleted_by, kept_out FROM rota.deleted_schedules ORDER BY name")
    assert [tuple(row.values()) for row in rows] == [
        ("a", "bob", "definition"),
        ("b", "bob", "definition"),
    ]


def test_one_that_the_code_drops_goes_unless_somebody_touched_it(code: MakeCode) -> None:
    old = code(a=declare(rota.every(60), rota.every(70), rota.every(80))).open()
    old.rows("UPDATE rota.schedules SET jitter_seconds = 5 WHERE name = 'a-3'")
    new = code(a=declare(rota.every(60))).open()
    rows = new.rows("SELECT name, origin FROM rota.schedules WHERE job = 'a' ORDER BY name")
    assert [tuple(row.values()) for row in rows] == [("a", "definition"), ("a-3", None)]
    assert new.rows("SELECT FROM rota.deleted_schedules WHERE kept_out IS NOT NULL") == []


def test_a_schedule_that_people_made_keeps_its_name(code: MakeCode) -> None:
    old = code(a={}).open()
    old.rows("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('a', 'a', 5)")
    new = code(a=declare(rota.every(60))).open()
    assert new.schedule("a")["interval_seconds"] == 5
    (drift,) = new.app.jobs.sync.plan()
    assert drift.change == "taken"


@pytest.mark.parametrize(
    "make",
    [
        lambda: rota.cron("not a cron"),
        lambda: rota.cron("0 8 * * *", timezone="Nowhere/Land"),
        lambda: rota.every(0.5),
        lambda: rota.once("tomorrow"),  # type: ignore[arg-type]
        lambda: rota.on_start("often"),  # type: ignore[arg-type]
        lambda: rota.every(60, colour=1),  # type: ignore[call-arg]
        lambda: rota.every(60, priority=11),
        lambda: rota.every(60, name=""),
        lambda: rota.after("", within=5),
        lambda: rota.after("a", within=-5),
    ],
)
def test_a_wrong_timing_is_an_error_where_it_is_declared(make: Any) -> None:
    with pytest.raises(rota.JobError):
        make()


@pytest.mark.parametrize(
    "arguments",
    [
        declare(rota.every(60, name="x"), rota.every(70, name="x")),
        declare(rota.every(60), rota.every(70, name="a")),
        declare("0 8 * * *"),
        declare(rota.every(60, payload={"n": "many"})),
        {"payload": {"n": "many"}},
        {"enabled": "yes"},
    ],
)
async def test_a_wrong_declaration_is_an_error(setting: Setting, arguments: Any) -> None:
    with pytest.raises(rota.JobError):

        @setting.job(name="a", **arguments)
        def handler(n: int) -> None: ...
