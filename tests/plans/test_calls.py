"""Calls beside many workers: 500 that wait, of two kinds, and 20,000 rows of those that were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.plans.plans import Watch
from tests.sql_engine import Engine

pytestmark = pytest.mark.plans

WORKERS = """
INSERT INTO rota.workers (name, host, pid, concurrency, lease_seconds, lease_expires_at, jobs,
    queues, channel, is_waiting, state, ended_at)
SELECT 'w', 'h', i, 4, 3600, now() + interval '1 h', ARRAY[job], '{{}}', 'rota_' || job || i,
    {waiting}, '{state}', {ended}
FROM generate_series(1, {count}) i, unnest(ARRAY['work', 'other']) job
"""
RUNS = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, payload)
SELECT i, i, now(), now(), now(), 3, 5, 'queued',
    CASE WHEN i % 2 = 0 THEN 'default' ELSE 'mail' END, 'work', '{}'
FROM generate_series(1, 50000) i
"""


@pytest.fixture(scope="module")
def crowd(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Engine(conn).job("work")
        gone = {"waiting": "false", "state": "gone", "ended": "now()", "count": 10_000}
        there = {"waiting": "true", "state": "live", "ended": "NULL", "count": 250}
        busy = {"waiting": "false", "state": "live", "ended": "NULL", "count": 250}
        for these in (gone, there, busy):
            conn.execute(WORKERS.format(**these).encode())
        conn.execute(RUNS)
        conn.execute("SELECT setval('rota.run_ids', 100000)")
        yield conn


@pytest.fixture
def waiting(crowd: psycopg.Connection[Any]) -> list[int]:
    """Those that wait for `work`, in the order in which they are called."""
    sql = "SELECT id FROM rota.workers WHERE is_waiting AND jobs = '{work}' ORDER BY id"
    return [worker for (worker,) in crowd.execute(sql).fetchall()]


@pytest.fixture(params=["analysed", "never analysed"])
def seen(
    request: pytest.FixtureRequest, crowd: psycopg.Connection[Any], waiting: list[int]
) -> Iterator[Watch]:
    """Whatever is known of the tables; nothing that is done stays."""
    with crowd.transaction(force_rollback=True):
        if request.param == "analysed":
            crowd.execute("ANALYZE rota.workers")
            crowd.execute("ANALYZE rota.open_runs")
        yield Watch(crowd)
        crowd.execute("SET client_min_messages = notice")
        crowd.execute("SET auto_explain.log_min_duration = -1")


def test_a_call_reads_the_first_of_each_kind(seen: Watch) -> None:
    seen.conn.execute("SELECT rota.wake(ARRAY['default'])")
    assert seen.indexes("workers") == {"workers_waiting"}
    assert seen.rows_read("workers") <= 3 * (3 + 1)


def test_a_call_reads_no_more_when_its_plan_is_kept(seen: Watch) -> None:
    """After five calls the server may keep one plan for all values."""
    seen.conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    seen.conn.execute("SELECT rota.wake(ARRAY['default'])")
    assert seen.rows_read("workers") <= 3 * (3 + 1)


@pytest.mark.parametrize("call", ["wake_admission()", "wake_later(interval '30 s')"])
def test_other_calls_read_those_that_wait(seen: Watch, call: str) -> None:
    seen.conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    seen.conn.execute(f"SELECT rota.{call}".encode())
    assert seen.indexes("workers") == {"workers_waiting"}
    assert seen.rows_read("workers") <= 2


def test_an_enqueue_reads_those_that_wait(seen: Watch) -> None:
    seen.conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    seen.conn.execute("SELECT rota.enqueue_plain('work', '{}')")
    assert seen.indexes("workers") == {"workers_waiting"}
    assert seen.rows_read("workers") <= 1 + 3 * (3 + 1)


def test_passing_on_reads_no_queue(seen: Watch, waiting: list[int]) -> None:
    seen.conn.execute("SELECT rota.pass_on(%s, ARRAY['default', 'mail', 'empty'])", [waiting[0]])
    assert "Seq Scan" not in seen.indexes("workers") | seen.indexes("open_runs")
    assert seen.rows_read("open_runs") <= 3
    # Where nothing is known of the table, its own row is looked for among those that wait.
    assert seen.rows_read("workers") <= 2 * 3 * (4 + 1) + len(waiting)


def test_passing_over_reads_those_before_it(seen: Watch, waiting: list[int]) -> None:
    """As many as are passed over, which happens once for each."""
    seen.conn.execute("SELECT rota.pass_over_silent(%s, ARRAY['default'])", [waiting[2]])
    assert "Seq Scan" not in seen.indexes("workers")
    assert seen.rows_read("workers") <= 600, "of its kind, and none of those that are gone"


def test_saying_that_it_waits_reads_its_row(seen: Watch, waiting: list[int]) -> None:
    seen.conn.execute("SELECT rota.answer_calls(%s, true, false, 'rota_x')", [waiting[0]])
    assert "Seq Scan" not in seen.indexes("workers")
    assert seen.rows_read("workers") <= 2
