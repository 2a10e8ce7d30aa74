"""A million runs wait in a queue that has a cap: what counting and dropping read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.plans.plans import Watch
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("capped")]

# A thousand tenants, ten priorities, a part held and a part for later.
WAITING = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, tenant, payload, held_by, is_capped)
SELECT i, i, now(), now(), now(), 3, i % 10, CASE WHEN i % 7 = 0 THEN 'scheduled' ELSE 'queued' END,
    CASE WHEN i % 2 = 0 THEN 'mail' ELSE 'default' END, 'work', 't' || i % 1000, '{}',
    CASE WHEN i % 5 = 0 AND i % 7 <> 0 THEN 'no_worker' END, i % 2 = 0
FROM generate_series(1, 1000000) i
"""


@pytest.fixture(scope="module")
def capped(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.job("work")
        conn.execute("""SELECT rota.set_queue('mail', '{"max_waiting": 1000}')""")
        conn.execute("UPDATE rota.queue_caps SET adopted_id = NULL, adopt_at = NULL")
        conn.execute(WAITING)
        conn.execute("SELECT setval('rota.run_ids', 9000000)")
        yield conn


@pytest.fixture(params=["unknown to the server", "known to it"])
def engine(capped: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Engine:
    if request.param == "known to it":
        capped.execute("VACUUM ANALYZE rota.open_runs")
    return Engine(capped)


def test_counting_reads_no_more_than_the_cap(engine: Engine) -> None:
    seen = Watch(engine.conn)
    engine.rows("SELECT * FROM rota.tend_caps(100)")
    assert seen.indexes("open_runs") == {"open_runs_capped"}
    assert seen.rows_read("open_runs") <= 1_500


def test_dropping_reads_what_it_drops(engine: Engine) -> None:
    seen = Watch(engine.conn)
    assert engine.one("SELECT rota.drop_lowest('mail', 100)") == 100
    assert seen.indexes("open_runs") <= {"open_runs_capped", "open_runs_pkey"}
    assert seen.rows_read("open_runs") <= 500
    low = engine.one("SELECT min(priority) FROM rota.ended_runs WHERE end_reason = 'queue full'")
    assert low == 8, "the even numbers, of which 8 is the least important"


def test_an_enqueue_reads_nothing_of_what_waits(engine: Engine) -> None:
    # For longer than this takes on a busy machine: an old count is made anew.
    engine.rows("UPDATE rota.queue_caps SET counted_at = clock_timestamp() + interval '1 hour'")
    seen = Watch(engine.conn)
    with pytest.raises(psycopg.Error, match='queue "mail" is full'):
        engine.enqueue(queue="mail")
    engine.enqueue()
    assert seen.rows_read("open_runs") == 0
