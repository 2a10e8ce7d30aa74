"""What is enqueued without options takes a shorter way: nobody can tell by the run."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine, listen_to_all

_TIMES = ("id", "seq", "created_at", "enqueued_at", "run_at")
_CALLS: list[dict[str, Any]] = [
    {},
    {"validated_by": 7},
    {"queue": "other"},
    {"queue": "x" * 100},
    {"priority": 0},
    {"priority": 9, "queue": "other", "triggered_by": json.dumps({"type": "code", "run": 1})},
    {"payload": json.dumps({"text": "x" * 1000})},
    {"payload": json.dumps({"text": "x" * 1000}), "validated_by": 7},
    {"payload": "null", "validated_by": 7},
]
_BAD: list[dict[str, Any]] = [
    {"job": "nobody"},
    {"payload": "[]"},
    {"payload": None},
    {"payload": '{"n": 1e5000}'},
    {"payload": json.dumps({"text": "x" * 5000})},
    {"payload": json.dumps({"text": "x" * 5000}), "validated_by": 7},
    {"priority": -1},
    {"priority": 10},
    {"queue": ""},
    {"queue": "x" * 101},
]


@pytest.fixture
def engine(conn: psycopg.Connection) -> Engine:
    engine = Engine(conn)
    engine.job("ok", queue="mail", priority=3, max_attempts=8)
    return engine


def _ask(engine: Engine, function: str, given: dict[str, Any]) -> Any:
    asked = {"job": "ok", "payload": '{"n": 1}', "triggered_by": None} | given
    named = ", ".join(f"{name} => %s" for name in asked)
    return engine.one(f"SELECT rota.{function}({named})", *asked.values())


@pytest.mark.parametrize("given", _CALLS)
def test_a_plain_enqueue_makes_the_run_that_enqueue_run_makes(
    engine: Engine, given: dict[str, Any]
) -> None:
    made = _ask(engine, "enqueue_plain", given)
    _ask(engine, "enqueue_run", given)
    short, long = engine.rows("SELECT * FROM rota.open_runs ORDER BY id")
    assert (short["id"], short["seq"]) == (made, made)
    assert short["created_at"] == short["run_at"]
    for name in _TIMES:
        del short[name], long[name]
    assert short == long


@pytest.mark.parametrize("given", _BAD)
def test_a_plain_enqueue_is_refused_in_the_same_words(
    engine: Engine, given: dict[str, Any]
) -> None:
    engine.conn.execute("UPDATE rota.settings SET payload_bytes = 4000")
    with pytest.raises(psycopg.Error) as short:
        _ask(engine, "enqueue_plain", given)
    with pytest.raises(psycopg.Error) as long:
        _ask(engine, "enqueue_run", given)
    assert (
        short.value.sqlstate,
        short.value.diag.message_primary,
        short.value.diag.message_hint,
    ) == (
        long.value.sqlstate,
        long.value.diag.message_primary,
        long.value.diag.message_hint,
    )
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0


def test_a_plain_enqueue_follows_the_clock_of_the_tests(engine: Engine) -> None:
    engine.conn.execute("UPDATE rota.settings SET clock_offset = '1 day'")
    made = _ask(engine, "enqueue_plain", {})
    assert engine.one("SELECT run_at > clock_timestamp() + interval '23 hours' FROM rota.open_runs")
    assert engine.run(made)["state"] == "queued"


def test_a_plain_enqueue_calls_who_waits_for_its_queue(engine: Engine, connect: Any) -> None:
    listener = connect()
    listen_to_all(listener)
    worker = engine.worker(queues=["mail"])
    engine.conn.execute("UPDATE rota.workers SET is_waiting = true WHERE id = %s", [worker])
    _ask(engine, "enqueue_plain", {"queue": "other"})
    _ask(engine, "enqueue_plain", {})
    (call,) = listener.notifies(timeout=10, stop_after=1)
    assert call.payload == "queue mail"
