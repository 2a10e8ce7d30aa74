"""Debounce and throttle: what becomes of many enqueues with one key."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine, Row


def debounce(engine: Engine, n: int, longest: float | None = None, **options: Any) -> Row:
    options = {"key": "k", "delay": timedelta(seconds=10), "key_seconds": longest} | options
    return engine.enqueue_run(payload={"n": n}, on_conflict="debounce", **options)


def throttle(engine: Engine, n: int, period: float = 60) -> Row:
    return engine.enqueue_run(payload={"n": n}, on_conflict="throttle", key="k", key_seconds=period)


def test_the_last_of_a_burst_runs_after_a_quiet_time(engine: Engine) -> None:
    first = debounce(engine, 1)
    assert not first["is_duplicate"]
    for n in (2, 3):
        engine.advance(6)
        assert debounce(engine, n) == {"run_id": first["run_id"], "is_duplicate": True}
        assert engine.promote() == 0
    engine.advance(11)
    assert engine.promote() == 1
    worker = engine.worker()
    claim = engine.claim_one(worker)
    assert (claim["id"], claim["payload"]) == (first["run_id"], {"n": 3})
    # While it runs, the next burst begins.
    again = debounce(engine, 4)
    assert not again["is_duplicate"]
    engine.succeed(worker, claim)
    assert debounce(engine, 5)["run_id"] == again["run_id"]
    engine.advance(11)
    engine.promote()
    assert engine.claim_one(worker)["payload"] == {"n": 5}


def test_a_burst_that_does_not_end_runs_after_the_longest_wait(engine: Engine) -> None:
    first = debounce(engine, 0, longest=15)
    for n in (1, 2):
        engine.advance(7)
        debounce(engine, n, longest=15)
    engine.advance(2)
    assert engine.promote() == 1
    assert engine.claim_one(engine.worker())["payload"] == {"n": 2}
    assert debounce(engine, 3, longest=15)["run_id"] != first["run_id"]


def test_the_first_of_each_period_runs(engine: Engine) -> None:
    first = throttle(engine, 1)
    worker = engine.worker()
    engine.succeed(worker, engine.claim_one(worker))
    assert throttle(engine, 2) == {"run_id": first["run_id"], "is_duplicate": True}
    engine.advance(59)
    assert throttle(engine, 3)["is_duplicate"]
    engine.advance(2)
    assert not throttle(engine, 4)["is_duplicate"]
    assert engine.claim_one(worker)["payload"] == {"n": 4}


def test_many_at_once(engine: Engine) -> None:
    rows = engine.rows(
        "SELECT * FROM rota.enqueue_many(ARRAY['work'], %s::jsonb[], keys => %s, key_seconds => %s,"
        " on_conflicts => %s)",
        ['{"n": 1}', '{"n": 2}', '{"n": 3}'], ["a", "a", "b"], [60, 60, 60], ["throttle"] * 3,
    )  # fmt: skip
    assert [row["is_duplicate"] for row in rows] == [False, True, False]


def test_keys_of_bursts_are_swept(engine: Engine) -> None:
    throttle(engine, 1)
    debounce(engine, 1, key="other")
    engine.advance(2 * 86_400)
    engine.one("SELECT rota.sweep(100)")
    assert engine.rows("SELECT * FROM rota.keys") == []


def test_a_burst_in_a_transaction_makes_the_next_one_wait(engine: Engine, other: Engine) -> None:
    debounce(engine, 1)
    other.conn.execute("SET lock_timeout = '50ms'")
    with engine.conn.transaction():
        debounce(engine, 2)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            debounce(other, 3)
    assert debounce(other, 3)["is_duplicate"]
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"on_conflict": "debounce", "key": "k"}, "debounce needs a key and a delay"),
        ({"on_conflict": "debounce", "delay": "1 s"}, "debounce needs a key"),
        ({"on_conflict": "throttle", "key": "k"}, "throttle needs a key and key_seconds"),
        ({"on_conflict": "juggle", "key": "k"}, "must be one of return"),
    ],
)
def test_what_is_missing_is_told(engine: Engine, options: Any, match: str) -> None:
    with pytest.raises(psycopg.Error, match=match):
        engine.enqueue_run(**options)
