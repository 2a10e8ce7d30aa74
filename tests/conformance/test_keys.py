"""Keys: one unfinished run for each, and what a second enqueue does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rota.testing import eventually_sync
from tests.sql_engine import Engine

Connect = Callable[..., psycopg.Connection[Any]]


def test_a_taken_key_returns_the_first_run(engine: Engine) -> None:
    first = engine.enqueue_run(key="a", payload={"n": 1})
    second = engine.enqueue_run(key="a", payload={"n": 2})
    assert (first["is_duplicate"], second["is_duplicate"]) == (False, True)
    assert first["run_id"] == second["run_id"]
    assert engine.run(first["run_id"])["payload"] == {"n": 1}
    assert engine.one("SELECT count(*) FROM rota.runs") == 1


def test_raise_says_who_holds_it(engine: Engine) -> None:
    run = engine.enqueue(key="a")
    with pytest.raises(
        psycopg.Error, match=f'key "a" of job "work" is held by run {run}'
    ) as caught:
        engine.enqueue(key="a", on_conflict="raise")
    assert caught.value.sqlstate == "RO003"
    detail = json.loads(caught.value.diag.message_detail or "")
    assert detail == {"job": "work", "key": "a", "held_by": run}


def test_the_scope_is_tenant_job_and_key(engine: Engine) -> None:
    engine.job("rest")
    runs = {
        engine.enqueue(key="a"),
        engine.enqueue(key="b"),
        engine.enqueue("rest", key="a"),
        engine.enqueue(key="a", tenant="acme"),
    }
    assert len(runs) == 4


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_a_key_holds_while_its_run_is_unfinished(engine: Engine, end: str) -> None:
    run, worker = engine.enqueue(key="a"), engine.worker()
    if end == "cancelled":
        engine.cancel(run)
    else:
        claim = engine.claim_one(worker)
        assert engine.enqueue(key="a") == run
        if end == "succeeded":
            engine.succeed(worker, claim)
        else:
            engine.fail(worker, claim)
    assert engine.state(run) == end
    assert engine.enqueue(key="a") != run


def test_a_key_holds_while_a_retry_waits(engine: Engine) -> None:
    run, worker = engine.enqueue(key="a"), engine.worker()
    engine.requeue(worker, engine.claim_one(worker), delay=60)
    assert engine.enqueue(key="a") == run


@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
def test_a_key_can_be_kept_after_the_end(engine: Engine, end: str) -> None:
    run, worker = engine.enqueue(key="a", key_seconds=60), engine.worker()
    if end == "succeeded":
        engine.succeed(worker, engine.claim_one(worker))
    else:
        engine.cancel(run)
    assert engine.enqueue(key="a") == run
    engine.advance(59)
    assert engine.enqueue(key="a") == run
    engine.advance(2)
    assert engine.enqueue(key="a") != run


def test_a_key_can_be_kept_for_ever(engine: Engine) -> None:
    run, worker = engine.enqueue(key="a", key_seconds=float("inf")), engine.worker()
    engine.succeed(worker, engine.claim_one(worker))
    engine.advance(100 * 365 * 86400)
    engine.conn.execute("SELECT rota.sweep(100)")
    assert engine.enqueue(key="a") == run


def test_the_sweep_removes_only_keys_past_their_period(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue(key="over", key_seconds=10)
    engine.enqueue(key="kept", key_seconds=1000)
    engine.succeed(worker, *engine.claim(worker))
    engine.enqueue(key="open")
    engine.advance(11)
    engine.conn.execute("SELECT rota.sweep(100)")
    left = engine.rows("SELECT key FROM rota.keys ORDER BY key")
    assert [row["key"] for row in left] == ["kept", "open"]


def test_replace_changes_what_waits(engine: Engine) -> None:
    engine.enqueue(delay="1 hour", key="other")
    run = engine.enqueue(key="a", payload={"n": 1}, tags=["old"])
    row = engine.enqueue_run(
        key="a", payload={"n": 2}, on_conflict="replace", priority=1, queue="mail", delay="1 hour"
    )
    assert row == {"run_id": run, "is_duplicate": True}
    shown = engine.run(run)
    assert (shown["payload"], shown["priority"], shown["queue"], shown["state"], shown["tags"]) == (
        {"n": 2}, 1, "mail", "scheduled", [],
    )  # fmt: skip
    engine.enqueue(key="a", payload={"n": 3}, on_conflict="replace")
    assert engine.run(run)["state"] == "queued"


def test_replace_never_touches_what_runs(engine: Engine) -> None:
    run, worker = engine.enqueue(key="a", payload={"n": 1}), engine.worker()
    engine.claim_one(worker)
    row = engine.enqueue_run(key="a", payload={"n": 2}, on_conflict="replace")
    assert row == {"run_id": run, "is_duplicate": True}
    assert (engine.run(run)["payload"], engine.state(run)) == ({"n": 1}, "running")


def test_replace_leaves_what_a_worker_is_taking(engine: Engine, connect: Connect) -> None:
    run, worker = engine.enqueue(key="a", payload={"n": 1}), engine.worker()
    taking = Engine(connect(autocommit=False))
    taking.claim_one(worker)
    engine.enqueue(key="a", payload={"n": 2}, on_conflict="replace")
    taking.conn.commit()
    assert (engine.run(run)["payload"], engine.state(run)) == ({"n": 1}, "running")


def test_replace_takes_over_an_expired_key(engine: Engine) -> None:
    run, worker = engine.enqueue(key="a", key_seconds=10), engine.worker()
    engine.succeed(worker, engine.claim_one(worker))
    engine.advance(11)
    row = engine.enqueue_run(key="a", on_conflict="replace")
    assert row["run_id"] != run
    assert row["is_duplicate"] is False


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def is_blocked(engine: Engine, conn: psycopg.Connection[Any]) -> bool:
    return bool(engine.one("SELECT cardinality(pg_blocking_pids(%s)) > 0", conn.info.backend_pid))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_enqueues_of_one_key_make_one_run(engine: Engine, connect: Connect, end: str) -> None:
    first, second = Engine(connect(autocommit=False)), Engine(connect())
    run = first.enqueue(key="a")
    rows: list[dict[str, Any]] = []
    thread = in_background(lambda: rows.append(second.enqueue_run(key="a")))
    eventually_sync(lambda: is_blocked(engine, second.conn))
    getattr(first.conn, end)()
    thread.join(20)
    assert (rows[0]["run_id"] == run) is (end == "commit")
    assert rows[0]["is_duplicate"] is (end == "commit")
    assert engine.one("SELECT count(*) FROM rota.runs") == 1


def test_a_holder_that_ends_in_between_frees_the_key(engine: Engine, connect: Connect) -> None:
    run, worker = engine.enqueue(key="a"), engine.worker()
    finisher, enqueuer = Engine(connect(autocommit=False)), Engine(connect())
    claim = engine.claim_one(worker)
    finisher.succeed(worker, claim)
    rows: list[dict[str, Any]] = []
    thread = in_background(lambda: rows.append(enqueuer.enqueue_run(key="a")))
    eventually_sync(lambda: is_blocked(engine, enqueuer.conn))
    finisher.conn.commit()
    thread.join(20)
    assert rows[0]["is_duplicate"] is False
    assert rows[0]["run_id"] != run
    assert engine.state(rows[0]["run_id"]) == "queued"


def test_an_expired_holder_that_upkeep_ends_in_between_frees_the_key(engine: Engine) -> None:
    """Upkeep has its row locked at the first look of the enqueue, and has ended it at the second:
    what the enqueue has asked for must not be taken for the run that is over."""
    expired = engine.enqueue(key="a", expires_in="10 milliseconds")
    engine.advance(1)
    engine.rows(
        "CREATE OR REPLACE FUNCTION rota.settle_expired(run_id bigint) RETURNS boolean"
        " LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM rota.end_waiting_runs(ARRAY[run_id], 'cancelled', 'expired');"
        " RETURN false; END $$"
    )
    row = engine.enqueue_run(key="a")
    assert (row["is_duplicate"], row["run_id"] == expired) == (False, False)
    assert engine.state(expired) == "cancelled"


@pytest.mark.parametrize("on_conflict", ["return", "replace"])
def test_a_callers_long_transaction_does_not_block_the_finish(
    engine: Engine, connect: Connect, on_conflict: str
) -> None:
    runs, worker = [engine.enqueue(key=key) for key in "abc"], engine.worker()
    claims = engine.claim(worker)
    caller = Engine(connect(autocommit=False))
    for key in "abc":
        caller.enqueue(key=key, on_conflict=on_conflict)
    assert set(engine.succeed(worker, *claims)) == set(runs)
    caller.conn.commit()
    assert engine.one("SELECT count(*) FROM rota.keys") == 0


def test_retrying_takes_the_key_again(engine: Engine) -> None:
    run, worker = engine.enqueue(key="a"), engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    engine.retry(run)
    assert engine.enqueue(key="a") == run


def test_retrying_is_refused_while_another_run_holds_the_key(engine: Engine) -> None:
    run, worker = engine.enqueue(key="a"), engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    holder = engine.enqueue(key="a")
    with pytest.raises(psycopg.Error, match=f"held by run {holder}") as caught:
        engine.retry(run)
    assert caught.value.sqlstate == "RO003"
    assert engine.state(run) == "failed"


def test_a_value_is_not_filled_in_again(conn: psycopg.Connection[Any]) -> None:
    """What a caller writes into a payload cannot name another field of it."""
    row = conn.execute(
        """SELECT rota.run_key('j', 'k:{a}:{b}:{a}', '{"a": "{b}", "b": "{a}"}', '{}')"""
    ).fetchone()
    assert row == ("k:{b}:{a}:{b}",)


HOLDS = {
    "a lock": "SELECT FROM rota.keys FOR UPDATE",
    "a debounced enqueue": "SELECT rota.enqueue('work', key => 'a', on_conflict => 'debounce',"
    " delay => '1 minute')",
}


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("key_seconds", [None, 60])
@pytest.mark.parametrize("end", ["finish", "rescue", "expiry", "cancel"])
def test_a_held_key_does_not_keep_its_run_from_ending(
    engine: Engine, connect: Connect, hold: str, key_seconds: float | None, end: str
) -> None:
    """Nor any other run that ends with it. Then the key is free, or kept for its time."""
    expires_in = "1 minute" if end == "expiry" else None
    runs = [
        engine.enqueue(key=key, key_seconds=key_seconds, max_attempts=1, expires_in=expires_in)
        for key in ("a", "b")
    ]
    worker = engine.worker()
    claims = engine.claim(worker) if end in ("finish", "rescue") else []
    holder = connect(autocommit=False)
    holder.execute(HOLDS[hold])
    engine.conn.execute("SET statement_timeout = '20s'")
    if end == "finish":
        engine.succeed(worker, *claims)
    elif end == "rescue":
        engine.lose(worker)
        engine.rescue()
    elif end == "expiry":
        engine.advance(61)
        engine.rows("SELECT rota.expire_runs(10)")
    else:
        for run in runs:
            engine.cancel(run)
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0
    holder.rollback()
    assert (engine.enqueue(key="a") == runs[0]) is (key_seconds is not None)
    engine.rows("SELECT rota.sweep(100)")
    assert engine.one("SELECT count(*) FROM rota.key_releases") == 0
    engine.advance(61)
    assert engine.enqueue(key="a") != runs[0]


def test_a_retry_takes_back_a_release_that_was_put_off(engine: Engine, connect: Connect) -> None:
    run, worker = engine.enqueue(key="a"), engine.worker()
    claim = engine.claim_one(worker)
    holder = connect(autocommit=False)
    holder.execute(HOLDS["a lock"])
    engine.fail(worker, claim)
    holder.rollback()
    engine.rows("SELECT rota.retry_run(%s)", run)
    engine.rows("SELECT rota.sweep(100)")
    assert engine.enqueue(key="a") == run
