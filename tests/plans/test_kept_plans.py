"""Plans that a session made while the tables were empty, and keeps: a queue is found empty, then
comes the burst."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.database import Server
from tests.plans.conftest import OPEN
from tests.plans.plans import Watch
from tests.sql_engine import Engine

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


ENQUEUE = "SELECT is_duplicate FROM rota.enqueue_run('work', '{}', key => 'k')"
# What is done to one run, with what is needed for it.
ACTS = {
    ENQUEUE: "SELECT 1",
    "SELECT rota.cancel_run(ID) = 'cancelled'": "SELECT 1",
    "SELECT rota.retry_run(ID) > 0": "SELECT rota.cancel_run(ID)",
    "SELECT rota.delete_run(ID) IS NOT NULL": "SELECT rota.cancel_run(ID)",
}


@pytest.mark.parametrize("act", ACTS)
def test_what_is_done_to_one_run_reads_one(engine: Engine, act: str) -> None:
    def run(is_seen: bool = False) -> Watch | None:
        engine.one(ENQUEUE)
        run_id = str(engine.one("SELECT max(run_id) FROM rota.keys"))
        engine.one(ACTS[act].replace("ID", run_id))
        seen = Watch(engine.conn) if is_seen else None
        assert engine.one(act.replace("ID", run_id))
        return seen

    engine.conn.execute("VACUUM ANALYZE rota.keys")
    for _ in range(8):
        with engine.conn.transaction(force_rollback=True):
            run()
    engine.conn.execute(OPEN.format(first=1, last=RUNS, state="queued", queue="default").encode())
    engine.conn.execute(
        f"INSERT INTO rota.keys (tenant, job, key, run_id)"
        f" SELECT '', 'work', 'k' || i, i FROM generate_series(1, {RUNS}) i".encode()
    )
    engine.conn.execute(f"SELECT setval('rota.run_ids', {2 * RUNS})".encode())
    seen = run(is_seen=True)
    assert seen is not None
    assert max(seen.rows_read(table) for table in ("open_runs", "keys")) <= 20


@pytest.mark.parametrize("jobs", [1, 500])
def test_a_claim_looks_up_its_jobs(engine: Engine, jobs: int) -> None:
    """By a hash where they are many; one that it does not know stays."""
    engine.conn.execute(OPEN.format(first=1, last=RUNS, state="queued", queue="default").encode())
    engine.conn.execute("UPDATE rota.open_runs SET job = 'removed' WHERE id <= 10")
    worker = engine.worker()
    known = [f"other_{n}" for n in range(jobs - 1)] + ["work"]
    for n in range(8):
        seen = Watch(engine.conn) if n == 7 else None
        assert {row["job"] for row in engine.claim(worker, 100, jobs=known)} == {"work"}
    assert seen is not None
    (names,) = (node for node in seen.every() if node["Node Type"] == "ProjectSet")
    assert "hashed SubPlan" in str(seen.plans)
    assert (names["Actual Loops"], names["Actual Rows"]) == ((1, jobs) if jobs > 1 else (0, 0))
