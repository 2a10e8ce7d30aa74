"""What the fleet does beside somebody's open transaction: by the SQL functions alone, and for the
rows that a transaction rarely holds.

`tests/engine/test_held_tables.py` holds the rows of every table under a worker that works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.conformance.test_limits import admit, limit
from tests.sql_engine import Engine, Row

Connection = psycopg.Connection[Any]


@pytest.fixture
def holder(engine: Engine, connect: Callable[..., Connection]) -> Iterator[Connection]:
    """The holder is in this thread: whoever waits for it would wait for ever."""
    engine.rows("SET statement_timeout = '15s'")
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


def hold_run(holder: Connection, run: int) -> None:
    holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [run])


def claims_of(engine: Engine, count: int, **options: Any) -> tuple[int, list[Row]]:
    for _ in range(count):
        engine.enqueue(**options)
    worker = engine.worker()
    admit(engine)
    claims = engine.claim(worker)
    assert len(claims) == count
    return worker, claims


def settle(engine: Engine) -> int:
    return int(engine.one("SELECT rota.settle_kept_ends(50)"))


def test_what_was_not_started_goes_back_without_waiting(engine: Engine, holder: Connection) -> None:
    worker, (held, free) = claims_of(engine, 2)
    hold_run(holder, held["id"])
    assert engine.hand_back(worker, held, free) == [free["id"]]
    assert (engine.state(held["id"]), engine.state(free["id"])) == ("running", "queued")
    assert settle(engine) == 1
    engine.lose(worker)
    assert engine.rescue(everywhere=True) == {}
    holder.rollback()
    assert settle(engine) == 0
    assert engine.state(held["id"]) == "queued"
    other = engine.worker()
    assert {one["id"] for one in engine.claim(other)} == {held["id"], free["id"]}
    assert engine.run(held["id"])["attempts_used"] == 0
    assert engine.attempt_states(held["id"]) == ["running"]


def test_what_was_isolated_and_not_started_goes_back_without_waiting(
    engine: Engine, holder: Connection
) -> None:
    worker, _ = claims_of(engine, 1, max_attempts=9)
    engine.lose(worker)
    engine.rescue()
    other = engine.worker()
    (suspect,) = engine.claim_suspect(other)
    hold_run(holder, suspect["id"])
    assert engine.hand_back(other, suspect) == []
    holder.rollback()
    assert settle(engine) == 0
    assert engine.run(suspect["id"])["held_by"] == "suspect"


def test_progress_is_written_for_the_others(engine: Engine, holder: Connection) -> None:
    worker, (held, free) = claims_of(engine, 2)
    hold_run(holder, held["id"])
    report = (
        "SELECT rota.report_progress(%s, %s::bigint[], %s::int[], '{0.5,0.5}'::real[],"
        " '{a,b}'::text[])"
    )
    params = worker, [held["id"], free["id"]], [1, 1]
    assert engine.rows(report, *params) == [{"report_progress": held["id"]}]
    assert [engine.run(one["id"])["message"] for one in (held, free)] == [None, "b"]
    holder.rollback()
    assert engine.rows(report, *params) == []
    assert engine.run(held["id"])["message"] == "a"


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_a_timeout_of_a_dying_process_is_kept(
    engine: Engine, holder: Connection, max_attempts: int
) -> None:
    worker, (claim,) = claims_of(engine, 1, max_attempts=max_attempts)
    hold_run(holder, claim["id"])
    engine.rows("SELECT rota.time_out_run(%s, %s, %s, 3)", worker, claim["id"], claim["attempt"])
    engine.lose(worker)
    assert engine.rescue() == {}
    holder.rollback()
    assert settle(engine) == 0
    assert engine.state(claim["id"]) == ("failed" if max_attempts == 1 else "queued")
    assert engine.attempt_states(claim["id"]) == ["timed_out"]


def scheduled_run(engine: Engine, name: str) -> int:
    """A run at a nominal time of a schedule, as a tick makes it."""
    engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES (%s, 'work', 86400)", name
    )
    run = int(engine.one("SELECT (rota.trigger_schedule(%s) ->> 'run_id')::bigint", name))
    engine.rows(
        "UPDATE rota.open_runs SET scheduled_for = date_trunc('hour', now()) WHERE id = %s", run
    )
    engine.rows(
        "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, tenant,"
        " schedule, claimed_at, decided_at, run_id, state) SELECT o.schedule_id, o.scheduled_for,"
        " o.scheduled_for, 1, 'ran', '', o.schedule, now(), now(), o.id, 'queued'"
        " FROM rota.open_runs o WHERE o.id = %s",
        run,
    )
    return run


def test_admission_goes_on_beside_a_held_entry_of_the_ledger(
    engine: Engine, holder: Connection
) -> None:
    limit(engine, cap=1, on_full="skip")
    engine.job("other")
    limit(engine, "others", cap=1, jobs=["other"])
    claims_of(engine, 1)
    held, free = scheduled_run(engine, "a"), scheduled_run(engine, "b")
    other = engine.enqueue("other")
    holder.execute("SELECT FROM rota.ledger WHERE run_id = %s FOR UPDATE", [held])
    admit(engine)
    assert engine.run(other)["held_by"] is None
    assert [engine.state(one) for one in (held, free)] == ["queued", "cancelled"]
    holder.rollback()
    admit(engine)
    assert engine.state(held) == "cancelled"


def test_admission_goes_on_beside_somebody_who_cancels(engine: Engine, holder: Connection) -> None:
    """A limit that cancels the oldest one, which a person cancels in an open transaction."""
    limit(engine, cap=1, on_full="cancel_running")
    engine.job("other")
    limit(engine, "others", cap=1, jobs=["other"])
    _, (claim,) = claims_of(engine, 1)
    holder.execute("SELECT rota.cancel_run(%s)", [claim["id"]])
    engine.enqueue()
    other = engine.enqueue("other")
    admit(engine)
    assert engine.run(other)["held_by"] is None
    holder.rollback()
    admit(engine)
    assert engine.one("SELECT count(*) FROM rota.cancel_requests") == 1


def test_admission_goes_on_beside_somebody_who_holds_the_settings(
    engine: Engine, holder: Connection
) -> None:
    """As whoever makes the first limit, or caps a queue. What is about a new limit waits."""
    limit(engine, cap=1)
    admit(engine)
    run = engine.enqueue()
    engine.job("other")
    late = engine.enqueue("other")
    holder.execute("SELECT FROM rota.settings FOR UPDATE")
    limit(engine, "others", cap=1, jobs=["other"])
    (turn,) = engine.rows("SELECT * FROM rota.admit_runs()")
    assert 0.1 <= turn["next_seconds"] <= 1
    assert engine.run(run)["held_by"] is None
    holder.rollback()
    admit(engine)
    keys = engine.one("SELECT limit_keys FROM rota.open_runs WHERE id = %s", late)
    assert keys is not None


def test_a_new_limit_that_somebody_holds_does_not_make_admission_spin(
    engine: Engine, holder: Connection
) -> None:
    limit(engine, cap=1)
    holder.execute("SELECT FROM rota.limits FOR UPDATE")
    (turn,) = engine.rows("SELECT * FROM rota.admit_runs()")
    assert 0.1 <= turn["next_seconds"] <= 1


def test_a_counter_that_somebody_deletes_stops_only_its_key(
    engine: Engine, holder: Connection
) -> None:
    limit(engine, cap=2)
    engine.job("other")
    limit(engine, "others", cap=1, jobs=["other"])
    _, (claim,) = claims_of(engine, 1)
    holder.execute("DELETE FROM rota.limit_slots")
    engine.enqueue()
    other = engine.enqueue("other")
    admit(engine)
    assert engine.run(other)["held_by"] is None
    assert engine.state(claim["id"]) == "running"


def test_the_end_of_an_init_run_does_not_wait(engine: Engine, holder: Connection) -> None:
    engine.rows("INSERT INTO rota.schedules (name, job, init) VALUES ('early', 'work', 'once')")
    worker = engine.worker()
    engine.rows("SELECT rota.run_inits(%s, NULL)", worker)
    claim = engine.claim_one(worker)
    holder.execute("SELECT FROM rota.init_runs FOR UPDATE")
    assert engine.succeed(worker, claim) == [claim["id"]]
    holder.rollback()
    engine.rows("SELECT rota.settle_schedule_ends(10)")
    assert engine.one("SELECT state FROM rota.init_runs") == "succeeded"


def test_a_crowd_is_ticked_beside_a_held_burst(engine: Engine, holder: Connection) -> None:
    engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds) SELECT 's' || n, 'work', 60"
        " FROM generate_series(1, 3) n"
    )
    engine.rows("UPDATE rota.schedule_state SET next_run_at = date_trunc('hour', now())")
    places = "SELECT * FROM rota.take_places(ARRAY(SELECT schedule_id FROM rota.schedule_state), 1)"
    assert len(engine.rows(places)) == 3
    holder.execute("SELECT FROM rota.bursts FOR UPDATE")
    assert engine.rows(places) == []


@pytest.mark.parametrize("key_seconds", [None, 3600])
def test_an_enqueue_waits_for_no_run_that_has_expired(
    engine: Engine, holder: Connection, key_seconds: int | None
) -> None:
    """From its deadline on its key is as if it had ended, whoever ends it and when."""
    options = {"key": "k", "key_seconds": key_seconds}
    expired = engine.enqueue(**options, expires_in="10 milliseconds")
    engine.advance(1)
    hold_run(holder, expired)
    run = engine.enqueue(**options)
    assert (run == expired) is (key_seconds is not None)
    assert engine.enqueue(**options) == run
    holder.rollback()
    assert engine.one("SELECT rota.expire_runs(10)") == 1
    assert engine.enqueue(**options) == run
    engine.advance(7200)
    assert (engine.enqueue(**options) == run) is (key_seconds is None)
