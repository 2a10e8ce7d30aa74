"""Plans that a session made while the tables were empty, and keeps: a queue is found empty, then
comes the burst."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.database import Server
from tests.engine import Engine
from tests.plans.conftest import OPEN
from tests.plans.plans import Watch

pytestmark = pytest.mark.plans

RUNS = 3000
UPKEEP = [
    "rota.park_unknown_runs(1000)",
    "rota.free_known_runs(1000)",
    "rota.fail_unknown_runs(0, 1000)",
    "rota.promote_runs(1000)",
    "rota.rescue_runs(1000, true)",
    "rota.sweep(1000)",
]


@pytest.fixture
def engine(server: Server) -> Iterator[Engine]:
    """With a job that no worker knows, and with counts that say that it has a run."""
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.job()
        engine.job("removed")
        engine.worker()
        conn.execute(
            "INSERT INTO rota.depths VALUES ('default', 'removed', 0, 0, 1, 0, 0, now()),"
            " ('mail', 'work', 0, 0, 1, 0, 0, now())"
        )
        conn.execute("VACUUM ANALYZE rota.open_runs")
        yield engine


@pytest.mark.parametrize("call", UPKEEP)
def test_upkeep_reads_a_burst_once(engine: Engine, call: str) -> None:
    for _ in range(8):  # after the fifth a plan is kept for good
        engine.rows(f"SELECT {call}")
    for first, state in ((1, "queued"), (RUNS + 1, "queued"), (2 * RUNS + 1, "scheduled")):
        runs = OPEN.format(first=first, last=first + RUNS - 1, state=state, queue="default")
        engine.conn.execute(runs.encode())
    engine.conn.execute(
        "UPDATE rota.open_runs SET held_by = 'no_worker', held_at = now() WHERE id <= %s", [RUNS]
    )
    seen = Watch(engine.conn)
    engine.rows(f"SELECT {call}")
    assert seen.rows_read("open_runs") <= 4 * RUNS
