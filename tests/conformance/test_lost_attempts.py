"""Attempts whose end others write are counted: in roll-ups, stats, rates and metrics."""

from __future__ import annotations

from typing import Any

import pytest

from rota.postgres.reports.metrics import read_metrics
from tests.conftest import MakeApp
from tests.sql_engine import Engine, Row

COUNTED = (
    "SELECT job, queue, outcome, sum(attempts)::int AS n FROM rota.rollup_minutes GROUP BY 1, 2, 3"
)


def counted(engine: Engine) -> dict[str, int]:
    return {row["outcome"]: row["n"] for row in engine.rows(COUNTED)}


def lose(engine: Engine, **options: Any) -> tuple[int, Row]:
    """An attempt whose worker is lost, rescued."""
    worker = engine.worker()
    run_id = engine.enqueue(**options)
    claim = engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    return run_id, claim


@pytest.mark.parametrize("max_attempts", [3, 1], ids=["with attempts left", "the last one"])
def test_a_lost_attempt_is_counted_once(engine: Engine, max_attempts: int) -> None:
    run_id, _ = lose(engine, max_attempts=max_attempts)
    assert engine.attempt_states(run_id) == ["lost"]
    assert engine.rows(COUNTED) == [{"job": "work", "queue": "default", "outcome": "lost", "n": 1}]
    engine.rescue(everywhere=True)
    assert counted(engine) == {"lost": 1}


def test_a_cancelled_one_that_was_lost(engine: Engine) -> None:
    worker = engine.worker()
    run_id = engine.enqueue()
    engine.claim_one(worker)
    engine.cancel(run_id)
    engine.lose(worker)
    engine.rescue()
    assert (engine.state(run_id), counted(engine)) == ("cancelled", {"lost": 1})


def test_a_retry_of_a_lost_run_counts_nothing(engine: Engine) -> None:
    run_id, _ = lose(engine, max_attempts=1)
    engine.retry(run_id)
    assert counted(engine) == {"lost": 1}


def test_what_had_not_started_is_no_attempt(engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    engine.claim(worker, 1, batch=1)
    engine.lose(worker)
    engine.rescue()
    assert counted(engine) == {}


def test_it_lasted_until_the_last_heartbeat(engine: Engine) -> None:
    engine.advance(86_400)  # the clock of the business is not that of heartbeats
    worker = engine.worker()
    engine.enqueue()
    engine.claim_one(worker)
    engine.rows(
        "UPDATE rota.workers SET heartbeat_at = heartbeat_at + interval '90 s' WHERE id = %s",
        worker,
    )
    engine.lose(worker)
    engine.rescue()
    (row,) = engine.rows("SELECT duration_ms, histogram FROM rota.rollup_minutes")
    assert 80_000 < row["duration_ms"] <= 90_000
    assert row["histogram"] == 10 ** (16 * 27)  # 2^26 us < 90 s < 2^27 us


def test_a_timeout_that_a_watchdog_writes_is_counted(engine: Engine, make_app: MakeApp) -> None:
    statement = make_app().database.statements.get("runs/time_out")
    for max_attempts in (1, 2):
        worker = engine.worker()
        engine.enqueue(max_attempts=max_attempts)
        claim = engine.claim_one(worker)
        params = {"id": claim["id"], "attempt": claim["attempt"], "worker": worker, "timeout": 2}
        engine.conn.execute(statement, params)
        engine.conn.execute(statement, params)  # too late: nothing of it is this worker's
        engine.conn.execute("DELETE FROM rota.open_runs")
    assert counted(engine) == {"timed_out": 2}


async def test_stats_and_metrics_have_it(engine: Engine, make_app: MakeApp) -> None:
    lose(engine)
    worker = engine.worker()
    app = make_app()
    found = await app.stats.get()
    assert (found.total.attempts, found.total.lost, found.total.failure_rate) == (1, 1, 1.0)
    assert [(it.job, it.activity.lost) for it in found.jobs] == [("work", 1)]
    metrics = await app.database.run(read_metrics(0))
    assert [(it.outcome, it.attempts) for it in metrics.attempts] == [("lost", 1)]
    seen = await app.overview.get(limit=5)
    assert [(it.job, it.failures) for it in seen.failing] == [("work", 1)]
    assert worker
