"""What a job says of its runs, whichever way they come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.jobs.sync import whole
from rota.jobs.timings import DeclaredSchedule
from tests.scheduling import Schedules
from tests.sql_engine import Engine, Row

_JOB: dict[str, Any] = {
    "delay_seconds": 60,
    "expires_in_seconds": 600,
    "key": "invoice:{invoice_id}",
    "tenant": "acme",
    "tags": ["money"],
    "metadata": json.dumps({"team": "billing"}),
    "default_payload": json.dumps({"invoice_id": 7}),
}
_UNKEYED = {name: value for name, value in _JOB.items() if name != "key"}


def _enqueue(engine: Engine) -> int:
    return int(engine.one("SELECT rota.enqueue('work')"))


def _enqueue_plain(engine: Engine) -> int:
    return int(engine.one("SELECT rota.enqueue_plain('work', 'null')"))


def _enqueue_batch(engine: Engine) -> int:
    return int(engine.one("SELECT (rota.enqueue_batch('work', '[null]'))[1]"))


def _enqueue_many(engine: Engine) -> int:
    query = "SELECT run_id FROM rota.enqueue_many(ARRAY['work'], ARRAY['null'::jsonb])"
    return int(engine.one(query))


def _emit(engine: Engine) -> int:
    return int(engine.one("SELECT run_id FROM rota.emit('invoice.sent')"))


def _emit_many(engine: Engine) -> int:
    engine.one("SELECT rota.emit_many('invoice.sent', ARRAY['{}'::jsonb])")
    return int(engine.one("SELECT max(id) FROM rota.open_runs"))


def _replay(engine: Engine) -> int:
    engine.rows("UPDATE rota.jobs SET events = '{}'")
    engine.rows("SELECT rota.emit('invoice.sent')")
    engine.rows("SELECT rota.replay_events('work', 'invoice.sent')")
    return int(engine.one("SELECT max(id) FROM rota.open_runs"))


WAYS = [_enqueue, _enqueue_plain, _enqueue_batch, _enqueue_many, _emit, _emit_many, _replay]


def _named(way: Callable[..., object]) -> str:
    return way.__name__.strip("_")


def _seconds(run: Row, later: str, earlier: str) -> float:
    apart: timedelta = run[later] - run[earlier]
    return apart.total_seconds()


@pytest.mark.parametrize("way", WAYS, ids=_named)
def test_a_run_has_what_its_job_says(engine: Engine, way: Callable[[Engine], int]) -> None:
    engine.rows("DELETE FROM rota.jobs WHERE name = 'work'")
    engine.job("work", events=["invoice.sent"], **_JOB)
    run = engine.run(way(engine))
    assert (run["key"], run["tenant"], run["payload"]) == ("invoice:7", "acme", {"invoice_id": 7})
    assert (run["tags"], run["metadata"]) == (["money"], {"team": "billing"})
    assert run["state"] == "scheduled"
    assert _seconds(run, "run_at", "created_at") == 60
    assert _seconds(run, "expires_at", "run_at") == 600
    # The same invoice again is the same run.
    assert _enqueue(engine) == run["id"]


async def test_so_has_a_run_of_a_schedule(app: rota.App, engine: Engine) -> None:
    schedules = Schedules(engine, app.database)
    engine.rows("DELETE FROM rota.jobs WHERE name = 'work'")
    engine.job("work", **_UNKEYED)
    schedules.add("s")
    schedules.add("t", run_tags=["own"], run_metadata=json.dumps({"by": "s"}), tenant="blue")
    await schedules.tick(seconds=60)
    found = engine.rows("SELECT * FROM rota.runs ORDER BY schedule")
    assert [run["tenant"] for run in found] == ["acme", "blue"]
    assert [run["tags"] for run in found] == [["money"], ["own"]]
    assert [run["metadata"] for run in found] == [
        {"team": "billing"},
        {"team": "billing", "by": "s"},
    ]
    for run in found:
        assert run["payload"] == {"invoice_id": 7}
        assert _seconds(run, "run_at", "scheduled_for") == 60
        assert _seconds(run, "expires_at", "run_at") == 600
    made = schedules.call("trigger_schedule", "s")
    assert engine.run(made["run_id"])["tenant"] == "acme"


def test_what_an_enqueue_says_counts_more(engine: Engine) -> None:
    engine.rows("DELETE FROM rota.jobs WHERE name = 'work'")
    engine.job("work", **_JOB)
    run = engine.run(
        engine.enqueue(
            payload={"n": 1}, delay=timedelta(0), expires_in=timedelta(seconds=5), key="k",
            tenant="blue", tags=["a"], metadata={"team": "ops", "by": "me"},
        )
    )  # fmt: skip
    assert (run["key"], run["tenant"], run["payload"]) == ("k", "blue", {"n": 1})
    assert (run["tags"], run["metadata"]) == (["a"], {"team": "ops", "by": "me"})
    assert run["state"] == "queued"
    assert _seconds(run, "expires_at", "run_at") == 5
    # Two ways to say when: the one that is given.
    at = run["created_at"] + timedelta(days=1)
    later = engine.run(engine.enqueue(payload={"invoice_id": 8}, run_at=at, expires_at=at))
    assert (later["run_at"], later["expires_at"]) == (at, at)


def test_a_key_is_filled_from_the_payload_and_the_signature(engine: Engine) -> None:
    schema = {"properties": {"kind": {"default": "sale"}, "n": {}, "to": {"default": {"a": 1}}}}
    engine.rows("DELETE FROM rota.jobs WHERE name = 'work'")
    engine.job("work", key="{kind}:{n}:{to.a}", payload_schema=json.dumps(schema))

    def key(**payload: Any) -> Any:
        return engine.run(engine.enqueue(payload=payload))["key"]

    assert key(n=1) == "sale:1:1"
    assert key(n=1, kind="gift", to={"a": "x"}) == "gift:1:x"
    for payload in ({}, {"n": None}, {"n": 1, "to": {}}):
        with pytest.raises(psycopg.Error, match="which the payload does not have") as caught:
            key(**payload)
        assert caught.value.sqlstate == "RO002"


def test_runs_that_were_there_already_are_told_apart(engine: Engine) -> None:
    engine.rows("DELETE FROM rota.jobs WHERE name = 'work'")
    engine.job("work", key="{n}")
    made = engine.rows("""
        SELECT * FROM rota.enqueue_uniform('work', '[{"n": 1}, {"n": 2}, {"n": 1}]', NULL, NULL,
            NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")
    assert [row["is_duplicate"] for row in made] == [False, False, True]
    assert made[0]["run_id"] == made[2]["run_id"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"delay_seconds": -1}, "delay_seconds -1 is not between"),
        ({"delay_seconds": float("inf")}, "delay_seconds"),
        ({"expires_in_seconds": 0}, "expires_in_seconds 0 is not between"),
        ({"key": "a:{b"}, "brace that does not enclose the name"),
        ({"key": "x" * 201}, "must have 1 to 200 characters"),
        ({"tenant": "a/b"}, "its tenant"),
        (
            {"key": "{n}", "event_delivery": json.dumps({"throttle_seconds": 1})},
            "key and event_delivery cannot be combined",
        ),
    ],
)
def test_what_cannot_be_is_refused(engine: Engine, columns: dict[str, Any], words: str) -> None:
    with pytest.raises(psycopg.Error, match=words) as caught:
        engine.job("other", **columns)
    assert caught.value.sqlstate == "RO002"


def test_a_key_and_a_schedule_exclude_each_other(engine: Engine) -> None:
    add = "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('s', %s, 60)"
    engine.job("keyed", key="{n}")
    with pytest.raises(psycopg.Error, match=r"has the key .* so it cannot have a schedule"):
        engine.rows(add, "keyed")
    engine.job("timed")
    engine.rows(add, "timed")
    with pytest.raises(psycopg.Error, match='it has a schedule, "s"'):
        engine.rows("UPDATE rota.jobs SET key = '{n}' WHERE name = 'timed'")


def registered(schedule: DeclaredSchedule) -> dict[str, Any]:
    """As the registration of a job tells it."""
    app = rota.App(embedded=False)
    app.job(name="met", schedules=[schedule])(_nothing)
    (job,) = json.loads(whole(app.registry, app.config)["jobs"])
    return dict(job["schedules"][0])


async def _nothing() -> None: ...


def test_code_that_meets_what_a_person_set_does_without(engine: Engine) -> None:
    """A worker that cannot register what it runs would not start."""

    def register(version: str, schedules: str, **defaults: Any) -> None:
        own = {"queue": "q", "priority": 5, "max_attempts": 3, "description": "", "tags": []}
        own |= {"metadata": {}, "is_enabled": True, "events": [], "event_filters": {}, "key": None}
        job = {"name": "met", "hash": version, "source": "", "executor": "async"}
        job |= {"payload_schema": {"properties": {"n": {}}}, "defaults": own | defaults}
        told = json.dumps([job | {"schedules": json.loads(schedules)}])
        engine.one("SELECT rota.register_jobs('app', %s, %s)", version, told)

    def key() -> Any:
        return engine.one("SELECT key FROM rota.jobs WHERE name = 'met'")

    register("1", "[]")
    engine.rows("UPDATE rota.jobs SET key = '{n}' WHERE name = 'met'")
    every = registered(rota.every(60, name="met"))
    register("2", json.dumps([every]))
    assert key() == "{n}"
    assert engine.one("SELECT count(*) FROM rota.schedules WHERE job = 'met'") == 0
    register("3", "[]", event_delivery={"throttle_seconds": 5})
    assert key() is None
    with pytest.raises(psycopg.Error, match="names other, which is not an argument"):
        engine.rows(
            "UPDATE rota.jobs SET key = '{other}', event_delivery = NULL WHERE name = 'met'"
        )


def test_an_enqueue_remembers_who_acts(engine: Engine) -> None:
    engine.rows("SET rota.actor = 'ada'")
    engine.rows("UPDATE rota.jobs SET events = '{paid}' WHERE name = 'work'")
    for query, kind in {
        "SELECT rota.enqueue('work')": "sql",
        "SELECT rota.enqueue_plain('work', '{}')": "code",
        "SELECT (rota.enqueue_batch('work', '[{}]'))[1]": "sql",
        "SELECT run_id FROM rota.enqueue_many(ARRAY['work'], ARRAY['{}'::jsonb])": "sql",
        "SELECT run_id FROM rota.emit('paid')": "event",
    }.items():
        told = engine.run(engine.one(query))["triggered_by"]
        assert (told["type"], told["actor"]) == (kind, "ada"), query
    given = engine.enqueue(triggered_by={"type": "manual", "actor": "bob"})
    assert engine.run(given)["triggered_by"]["actor"] == "bob"
