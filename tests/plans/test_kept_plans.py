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
# With what they should answer: a thousand at once, where there are so many.
UPKEEP = {
    "SELECT rota.park_unknown_runs(1000)": RUNS // 100,
    "SELECT rota.free_known_runs(1000)": 1000,
    "SELECT count(*) FROM rota.fail_unknown_runs(0, 1000)": 1000,
    "SELECT promoted FROM rota.promote_runs(1000)": 1000,
    "SELECT count(*) FROM rota.rescue_runs(1000, true)": 0,
    "SELECT rota.sweep(1000)": 0,
}


@pytest.fixture
def engine(server: Server) -> Iterator[Engine]:
    """With a job that no worker knows."""
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.job()
        engine.job("removed")
        engine.worker()
        conn.execute("VACUUM ANALYZE rota.open_runs")
        yield engine


def ask(engine: Engine, statement: str) -> int:
    """With counts that say that there is something to park, and something parked."""
    engine.conn.execute("DELETE FROM rota.depths")
    engine.conn.execute(
        "INSERT INTO rota.depths VALUES ('default', 'removed', 0, 0, 1, 0, 0, now()),"
        " ('default', 'work', 0, 0, 1, 1, 0, now())"
    )
    return int(engine.one(statement))


@pytest.mark.parametrize("statement", UPKEEP)
def test_upkeep_reads_a_burst_once(engine: Engine, statement: str) -> None:
    for _ in range(8):  # after the fifth a plan is kept for good
        assert ask(engine, statement) == 0
    for first, state in ((1, "queued"), (RUNS + 1, "queued"), (2 * RUNS + 1, "scheduled")):
        runs = OPEN.format(first=first, last=first + RUNS - 1, state=state, queue="default")
        engine.conn.execute(runs.encode())
    engine.conn.execute(
        "UPDATE rota.open_runs SET held_by = 'no_worker', held_at = now() WHERE id <= %s", [RUNS]
    )
    engine.conn.execute(
        "UPDATE rota.open_runs SET job = 'removed' WHERE is_ready AND id %% 100 = 0", []
    )
    engine.advance(3600)
    seen = Watch(engine.conn)
    assert ask(engine, statement) == UPKEEP[statement]
    assert seen.rows_read("open_runs") <= 4 * RUNS
