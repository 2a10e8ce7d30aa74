"""A job's status counts runs, however many attempts each of them took."""

from __future__ import annotations

from typing import Any

import rota
from rota.runtime.upkeep import Upkeep
from tests.engine import Engine


def status(engine: Engine) -> tuple[Any, ...]:
    (row,) = engine.rows(
        "SELECT total_runs, success_rate_percent FROM rota.job_status WHERE name = 'work'"
    )
    return tuple(row.values())


def end_some(engine: Engine, worker: int) -> None:
    """Three succeed, one of them at its second attempt; one fails; one is cancelled."""
    for _ in range(4):
        engine.enqueue()
    claims = engine.claim(worker)
    engine.requeue(worker, claims[0])
    engine.succeed(worker, *claims[1:3])
    engine.fail(worker, claims[3])
    engine.succeed(worker, engine.claim_one(worker))
    engine.cancel(engine.enqueue())


async def test_runs_are_counted_not_attempts(app: rota.App, engine: Engine) -> None:
    engine.job()
    assert status(engine) == (0, None)
    end_some(engine, engine.worker("work"))
    assert status(engine) == (5, 75.0)


async def test_upkeep_keeps_the_counts_and_history_may_go(app: rota.App, engine: Engine) -> None:
    await app.database.open()
    engine.job()
    worker = engine.worker("work")
    end_some(engine, worker)
    assert engine.one("SELECT rota.count_ended_runs()") == 0  # too fresh: more may be committed
    engine.advance(300)
    await Upkeep(app.database, unknown_job_seconds=60).run_once()
    assert status(engine) == (5, 75.0)
    engine.rows("DELETE FROM rota.ended_runs")
    end_some(engine, worker)
    assert status(engine) == (10, 75.0)
    engine.advance(300)
    engine.one("SELECT rota.count_ended_runs()")
    engine.one("SELECT rota.count_ended_runs()")
    assert status(engine) == (10, 75.0)
