"""The queue's own statements on large tables: they read what they take, and little more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.plans.plans import Watch
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("large tables")]

# As claims are made: a few hundred at most. Anything that grows with the tables is far above.
FEW = 1500

Statistics = Callable[[psycopg.Connection[Any]], None]


def fresh(conn: psycopg.Connection[Any]) -> None:
    conn.execute("ANALYZE rota.open_runs")


def none_at_all(conn: psycopg.Connection[Any]) -> None:
    """As after a bulk into a new table, before anybody has analysed it."""
    conn.execute("DELETE FROM pg_statistic WHERE starelid = 'rota.open_runs'::regclass")
    conn.execute(
        "UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid = 'rota.open_runs'::regclass"
    )


def empty(conn: psycopg.Connection[Any]) -> None:
    """As after a vacuum that saw only dead rows: the planner takes the table for empty."""
    fresh(conn)
    conn.execute(
        "UPDATE pg_class SET reltuples = 0, relpages = 1 WHERE oid = 'rota.open_runs'::regclass"
    )


@pytest.fixture(params=[fresh, none_at_all, empty], ids=lambda it: it.__name__)
def engine(large: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Iterator[Engine]:
    request.param(large)
    # A new session: plans of functions are kept in the old one.
    with psycopg.connect(large.info.dsn, password=large.info.password, autocommit=True) as conn:
        yield Engine(conn)


def watch(engine: Engine) -> Watch:
    return Watch(engine.conn)


def test_claim_and_finish(engine: Engine) -> None:
    worker = engine.worker()
    seen = watch(engine)
    claims = engine.claim(worker, 200, ["default", "mail"], quota=100)
    assert len(claims) == 200
    assert seen.indexes("open_runs") == {"open_runs_claim", "Tid Scan"}
    assert seen.rows_read("open_runs") < FEW
    seen.plans.clear()
    assert len(engine.succeed(worker, *claims)) == 200
    assert seen.indexes("open_runs") == {"open_runs_pkey"}
    assert seen.rows_read("open_runs") < FEW
    assert seen.nodes("ended_runs") == []


def test_a_claim_that_tenants_share(engine: Engine) -> None:
    run = engine.enqueue(tenant="umbrella")
    worker = engine.worker()
    seen = watch(engine)
    claims = engine.claim(worker, 200, ["default"])
    assert len(claims) == 200
    assert run in {claim["id"] for claim in claims}
    assert seen.indexes("open_runs") == {"open_runs_claim", "Tid Scan"}
    assert seen.rows_read("open_runs") < FEW
    engine.succeed(worker, *claims)


def test_a_span_of_ends(engine: Engine) -> None:
    worker = engine.worker()
    claims = engine.claim(worker, 200, ["default"])
    seen = watch(engine)
    assert engine.succeed_span(worker, *claims) == len(claims) == 200
    assert seen.indexes("open_runs") == {"open_runs_pkey"}
    assert seen.rows_read("open_runs") <= claims[-1]["id"] - claims[0]["id"] + 1
    assert seen.nodes("ended_runs") == []


def test_requeue_and_hand_back(engine: Engine) -> None:
    worker = engine.worker()
    claims = engine.claim(worker, 2)
    seen = watch(engine)
    engine.requeue(worker, claims[0])
    engine.hand_back(worker, claims[1])
    assert seen.indexes("open_runs") <= {"open_runs_pkey"}
    assert seen.rows_read("open_runs") < 20


def test_promote(engine: Engine) -> None:
    engine.advance(1100)
    seen = watch(engine)
    assert engine.promote(500) == 500
    assert seen.indexes("open_runs") == {"open_runs_due", "Tid Scan"}
    assert seen.rows_read("open_runs") < FEW


@pytest.fixture
def unknown(engine: Engine) -> Iterator[Engine]:
    """A job that no live worker knows, as each removed job is one; another worker is there."""
    engine.conn.execute("INSERT INTO rota.jobs (name) VALUES ('removed') ON CONFLICT DO NOTHING")
    engine.worker()
    engine.conn.execute("SET statement_timeout = '60s'")  # it would take hours, not seconds
    yield engine
    engine.conn.execute("DELETE FROM rota.open_runs WHERE job = 'removed'")
    engine.conn.execute("DELETE FROM rota.workers WHERE 'removed' = ANY (jobs)")


def test_parking_reads_no_backlog_of_others(unknown: Engine) -> None:
    unknown.count_depths()
    seen = watch(unknown)
    assert unknown.park_counted() == 0
    assert seen.rows_read("open_runs") == 0


def test_parking_reads_the_backlog_once_and_freeing_what_it_frees(unknown: Engine) -> None:
    run = unknown.enqueue("removed")
    unknown.count_depths()
    seen = watch(unknown)
    assert unknown.park_counted() == 1
    assert seen.rows_read("open_runs") < 1_010_000
    seen.plans.clear()
    assert unknown.park_counted() == 0
    assert seen.rows_read("open_runs") == 0  # not before it was counted again
    unknown.worker("removed")
    seen.plans.clear()
    assert unknown.free() == 1
    assert seen.indexes("open_runs") == {"open_runs_held", "Tid Scan"}
    assert seen.rows_read("open_runs") < 20
    assert unknown.run(run)["held_by"] is None


def test_failing_what_is_parked_reads_what_is_parked_for_long(unknown: Engine) -> None:
    for _ in range(2):
        for _ in range(10):
            unknown.enqueue("removed")
        assert unknown.park() == 10
        unknown.advance(100)
    unknown.count_depths()
    seen = watch(unknown)
    assert len(unknown.rows("SELECT rota.fail_unknown_runs(150, 1000)")) == 10
    assert seen.indexes("open_runs") <= {"open_runs_held", "open_runs_pkey"}
    assert seen.rows_read("open_runs") <= 20


def test_enqueue_with_a_key_and_cancel(engine: Engine) -> None:
    seen = watch(engine)
    run = engine.enqueue(key="k")
    assert engine.enqueue(key="k", on_conflict="replace") == run
    engine.cancel(run)
    assert seen.indexes("open_runs") <= {"open_runs_pkey"}
    assert seen.rows_read("open_runs") < 20


def test_busy_queues(engine: Engine) -> None:
    seen = watch(engine)
    assert {row["q"] for row in engine.rows("SELECT rota.busy_queues() AS q")} == {
        "default",
        "mail",
    }
    assert seen.indexes("open_runs") == {"open_runs_claim"}
    assert seen.rows_read("open_runs") < FEW


def test_suspects(engine: Engine) -> None:
    run, worker = engine.enqueue(queue="rare"), engine.worker()
    engine.claim_one(worker, queues=["rare"])
    engine.lose(worker)
    engine.rescue()
    fresh_worker = engine.worker()
    seen = watch(engine)
    (claim,) = engine.claim_suspect(fresh_worker)
    assert claim["id"] == run
    assert seen.rows_read("open_runs") < 20
    engine.succeed(fresh_worker, claim)


def test_a_full_queue_of_other_jobs_is_no_obstacle_for_the_count_of_rows(engine: Engine) -> None:
    """A claim that finds nothing reads nothing: the queue is empty, the tables are not."""
    worker = engine.worker()
    seen = watch(engine)
    assert engine.claim(worker, 100, ["nothing here"]) == []
    assert seen.rows_read("open_runs") == 0
