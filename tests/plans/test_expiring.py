"""Lists of ended runs beside many that wait and will expire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rota.model.run_filter import RunFilter
from rota.postgres.runs import lists as run_lists
from tests.database import Server
from tests.plans.plans import Watch
from tests.plans.test_run_lists import carry_out
from tests.sql_engine import Engine

pytestmark = pytest.mark.plans

OPEN = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, payload, expires_at)
SELECT i, i, now(), now(), now(), 3, 5, 'queued', 'default', 'work', '{}',
    now() + CASE WHEN i % 1000 = 0 THEN interval '-1 h' ELSE interval '1 day' END
FROM generate_series(1, 20000) i
"""


@pytest.fixture(scope="module")
def expiring(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Engine(conn).job("work")
        conn.execute(OPEN)
        conn.execute("SELECT setval('rota.run_ids', 20000)")
        conn.execute("ANALYZE rota.open_runs")
        yield conn


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("states", [["failed"], ["failed", "succeeded"]])
def test_what_waits_is_not_read(
    expiring: psycopg.Connection[Any], states: list[str], order: Any
) -> None:
    info = expiring.info
    with psycopg.connect(info.dsn, password=info.password, autocommit=True) as conn:
        seen = Watch(conn)
        page = carry_out(conn, run_lists.list_page(RunFilter.of({"states": states}), order=order))
        assert page.runs == []
        # The search looks for the lowest id, and the list itself for nothing.
        assert seen.rows_read("open_runs") <= 1
        page = carry_out(conn, run_lists.list_page(RunFilter.of({"states": ["cancelled"]})))
        assert len(page.runs) == 20


def test_writing_down_reads_what_has_expired(expiring: psycopg.Connection[Any]) -> None:
    with expiring.transaction(force_rollback=True):
        seen = Watch(expiring)
        assert expiring.execute("SELECT rota.expire_runs(15)").fetchone() == (15,)
        assert "Seq Scan" not in {node["Node Type"] for node in seen.nodes("open_runs")}
        assert seen.rows_read("open_runs") <= 5 * 15
