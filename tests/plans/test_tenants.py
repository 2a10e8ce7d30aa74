"""A million waiting runs of one tenant: what a batch reads that holds or frees some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.plans.plans import Watch
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("a tenant's million")]

WAITING = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, tenant, payload)
SELECT i, i, now(), now(), now(), 3, i % 10, 'queued', 'q' || i % 3, 'work',
    CASE WHEN i % 1000 = 0 THEN 'blue' ELSE 'acme' END, '{}'
FROM generate_series(1, 1001001) i
"""
BATCH = 1000
# A row that is taken is read once to choose it and once to change it; indexes still have a few
# versions of what the batch before has changed.
MOST = 5 * BATCH


@pytest.fixture(scope="module")
def waiting(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Engine(conn).job("work")
        conn.execute(WAITING)
        conn.execute("SELECT setval('rota.run_ids', 9000000)")
        conn.execute("VACUUM ANALYZE rota.open_runs")
        yield conn


def test_batches_hold_and_free_by_index(waiting: psycopg.Connection[Any]) -> None:
    """One after the other: none reads more than the one before, whatever was moved already."""
    engine = Engine(waiting)
    seen = Watch(waiting)
    assert engine.one("SELECT rota.pause_tenant('acme')") == BATCH
    check(seen, {"open_runs_claim"})
    for _ in range(5):
        assert engine.one("SELECT rota.hold_runs_of('acme', %s)", BATCH) == BATCH
        check(seen, {"open_runs_claim"})
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE held_by = 'tenant'") == 6 * BATCH
    seen.plans.clear()
    assert engine.one("SELECT rota.resume_tenant('acme')") == BATCH
    check(seen, {"open_runs_held_of_tenant"})
    for _ in range(4):
        assert engine.one("SELECT rota.free_runs_of('acme', %s)", BATCH) == BATCH
        check(seen, {"open_runs_held_of_tenant"})


def check(seen: Watch, indexes: set[str]) -> None:
    kinds = {node["Node Type"] for node in seen.nodes("open_runs")}
    assert "Seq Scan" not in kinds
    assert indexes <= seen.indexes("open_runs")
    assert seen.rows_read("open_runs") <= MOST
    seen.plans.clear()


def test_a_claim_of_others_reads_nothing_of_a_paused_tenant(
    waiting: psycopg.Connection[Any],
) -> None:
    engine = Engine(waiting)
    engine.one("SELECT rota.pause_tenant('acme')")
    worker = engine.worker("work")
    seen = Watch(waiting)
    claims = engine.claim(worker, 10, queues=["q0", "q1", "q2"])
    assert len(claims) == 10
    assert {claim["tenant"] for claim in claims} == {"blue"}
    assert seen.rows_read("open_runs") < 200
