"""What operators change stays; what nobody touched follows the code."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.model.backoff import Backoff
from tests.jobs.conftest import MakeCode
from tests.jobs.processes import Code


def fields(one: Code, *names: str) -> list[Any]:
    job = one.job("a")
    return [job[name] for name in names]


def test_a_touched_field_stays_and_the_others_follow(code: MakeCode) -> None:
    old = code(a={"priority": 3, "queue": "x", "tags": ["t"]}).open()
    old.rows("UPDATE rota.jobs SET priority = 8 WHERE name = 'a'")
    new = code(a={"priority": 4, "queue": "y", "description": "New."}).open()
    names = ("priority", "queue", "tags", "description")
    assert fields(new, *names) == [8, "y", [], "New."]
    assert new.job("a")["code"]["priority"] == 4
    mark = new.job("a")["edited"]["priority"]
    assert set(mark) == {"by", "at"}


def test_the_audit_says_what_was_before_and_after_and_who(code: MakeCode) -> None:
    one = code(a={"priority": 3}).open()
    one.app.jobs.by("ada").sync.update("a", priority=8, timeout=30, reason="load")
    (row,) = one.rows("SELECT * FROM rota.audit WHERE object_id = 'a'")
    assert (row["actor"], row["action"], row["reason"]) == ("ada", "job.updated", "load")
    assert row["before"] == {"priority": 3, "timeout_seconds": None}
    assert row["after"] == {"priority": 8, "timeout_seconds": 30}
    assert {name: mark["by"] for name, mark in one.job("a")["edited"].items()} == {
        "priority": "ada", "timeout_seconds": "ada",
    }  # fmt: skip


def test_a_field_set_back_to_the_codes_value_follows_it_again(code: MakeCode) -> None:
    one = code(a={"timeout": 0.3, "backoff": lambda attempt: 1}).open()
    update = one.app.jobs.sync.update
    update("a", timeout=9, backoff="fixed")
    assert one.job("a")["backoff"]["kind"] == "fixed"
    one.rows("UPDATE rota.jobs SET timeout_seconds = 0.3, backoff = NULL WHERE name = 'a'")
    assert one.job("a")["edited"] == {}
    update("a", timeout=9)
    found = update("a", reset=["timeout"])
    assert found.timeout_seconds == pytest.approx(0.3)
    assert found.edited == {}


def test_code_that_comes_to_say_the_same_takes_the_field_back(code: MakeCode) -> None:
    code(a={"priority": 3}).open().app.jobs.sync.update("a", priority=8)
    one = code(a={"priority": 8}).open()
    assert one.job("a")["edited"] == {}
    assert code(a={"priority": 5}).open().job("a")["priority"] == 5


def test_disabling_outlives_a_deployment(code: MakeCode) -> None:
    one = code(a={}).open()
    one.app.jobs.by("ada").sync.disable("a", reason="broken")
    assert one.app.jobs.by("ada").sync.disable("a") is False
    again = code(a={"priority": 1}).open()
    assert fields(again, "is_enabled", "priority") == [False, 1]
    again.app.jobs.sync.enable("a")
    assert again.job("a")["edited"] == {}
    rows = again.rows(
        "SELECT action, reason FROM rota.audit WHERE object_id = 'a' AND action <> 'job.synced'"
        " ORDER BY id"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("job.disabled", "broken"), ("job.enabled", None),
    ]  # fmt: skip
    with pytest.raises(rota.UnknownJob):
        again.app.jobs.sync.enable("b")


def test_plan_shows_code_database_and_who(code: MakeCode) -> None:
    old = code(a={"priority": 3}, gone={}).open()
    old.app.jobs.by("ada").sync.update("a", priority=8)
    new = code(a={"priority": 4, "queue": "y"}, fresh={})
    jobs = old.app.jobs.of(new.app.registry, new.app.config).sync
    found = {(it.name, it.field): it for it in jobs.plan()}
    assert {key: it.change for key, it in found.items()} == {
        ("a", "priority"): "kept",
        ("a", "queue"): "follows",
        ("fresh", None): "new",
        ("gone", None): "gone",
    }
    kept = found["a", "priority"]
    assert (kept.code, kept.stored, kept.changed_by) == (4, 8, "ada")
    assert old.job("a")["queue"] == "default", "a plan writes nothing"


def test_sync_applies_the_plan_and_force_overwrites(code: MakeCode) -> None:
    old = code(a={"priority": 3}, gone={}).open()
    old.app.jobs.by("ada").sync.update("a", priority=8)
    new = code(a={"priority": 4, "queue": "y"})
    jobs = old.app.jobs.by("bob").of(new.app.registry, new.app.config).sync
    synced = jobs.sync_definitions()
    assert (synced.written, synced.deleted) == (["a"], ["gone"])
    assert [(it.name, it.change) for it in jobs.plan()] == [("a", "kept")]
    assert old.is_deleted("gone")
    assert jobs.sync_definitions(force=["a"]).written == ["a"]
    assert jobs.plan() == []
    assert old.job("a")["priority"] == 4
    last = old.rows("SELECT actor, action, after FROM rota.audit ORDER BY id DESC LIMIT 1")
    assert last == [{"actor": "bob", "action": "job.synced", "after": {"priority": 4}}]
    with pytest.raises(rota.UnknownJob):
        jobs.sync_definitions(force=["b"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("priority = 10", "priority 10 is not between 0"),
        ("max_attempts = 0", "max_attempts 0 is not between 1"),
        ("timeout_seconds = -1", "less than 0.001"),
        ("""backoff = '{"kind": "cubic"}'""", "one of exponential, linear, fixed"),
        ("""backoff = '{"kind": "fixed", "base": 1}'""", 'invalid option "base"'),
        ("""backoff = '{"factor": 0.5}'""", 'invalid option "factor"'),
        ("name = 'b'", "cannot be renamed"),
    ],
)
def test_a_bad_update_is_refused_in_words(code: MakeCode, columns: str, message: str) -> None:
    one = code(a={}).open()
    with pytest.raises(Exception, match=message):
        one.rows(f"UPDATE rota.jobs SET {columns} WHERE name = 'a'")
    assert one.job("a")["edited"] == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 10}, {"max_attempts": 0}, {"timeout": 0}, {"backoff": "cubic"}, {"tags": "a"},
        {"payload": []}, {"queue": ""}, {"colour": 1}, {"reset": ["colour"]},
    ],
)  # fmt: skip
def test_a_bad_change_is_refused(code: MakeCode, changes: dict[str, Any]) -> None:
    one = code(a={}).open()
    with pytest.raises(rota.JobError):
        one.app.jobs.sync.update("a", **changes)
    with pytest.raises(rota.UnknownJob):
        one.app.jobs.sync.update("b", priority=1)


def test_a_job_with_schedules_cannot_be_deleted(code: MakeCode) -> None:
    one = code(a={"schedules": [rota.every(60)]}, b={}).open()
    with pytest.raises(Exception, match='job "a" has schedules'):
        one.rows("DELETE FROM rota.jobs WHERE name = 'a'")
    one.rows("DELETE FROM rota.jobs WHERE name = 'b'")
    assert one.rows("SELECT action FROM rota.audit WHERE object_id = 'b'") == [
        {"action": "job.deleted"}
    ]


def test_new_runs_take_what_the_database_says(code: MakeCode) -> None:
    one = code(a={"backoff": Backoff(base=1)}).open()
    one.app.jobs.sync.update("a", queue="slow", priority=9, max_attempts=7)
    one.rows("SELECT rota.enqueue('a')")
    (run,) = one.rows("SELECT queue, priority, max_attempts FROM rota.runs")
    assert run == {"queue": "slow", "priority": 9, "max_attempts": 7}
