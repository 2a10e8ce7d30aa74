"""Somebody holds what the end of a run needs for longer than a worker's lease and patience: the
worker stays who it is, and a success that is known is recorded as that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from rota.engine.loops.rescuer import Rescuer
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
PATIENCE = 2.0
HOLDS = {
    "the key": "SELECT FROM rota.keys FOR UPDATE",
    "the key, by an enqueue": "SELECT rota.enqueue('gate', key => 'k', on_conflict => 'debounce',"
    " delay => '1 minute')",
    "the run": "SELECT FROM rota.open_runs FOR UPDATE",
    "the history": "LOCK TABLE rota.ended_runs IN SHARE MODE",
}


@pytest.fixture
def holder(connect: Callable[..., Connection]) -> Iterator[Connection]:
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


@pytest.mark.slow
@pytest.mark.parametrize("held", HOLDS)
async def test_nothing_is_lost_by_it(
    make_app: MakeApp, engine: Engine, holder: Connection, held: str
) -> None:
    app = make_app(**{"worker.patience_seconds": PATIENCE, "worker.lease_seconds": 3.0})
    go, begun = asyncio.Event(), []

    @app.job(max_attempts=1)
    async def gate() -> str:
        begun.append("gate")
        await go.wait()
        return "through"

    @app.job
    async def quick(n: int) -> None:
        begun.append(n)

    async with app, app.worker() as worker:
        first = worker.id
        run = await gate.options(key="k").enqueue()
        await eventually(lambda: "gate" in begun)
        holder.execute(HOLDS[held].encode())
        go.set()
        over = time.monotonic() + 4 * PATIENCE
        n = 0
        while time.monotonic() < over:
            await quick.enqueue(n=n)
            await eventually(lambda n=n: n in begun)  # type: ignore[misc]
            await Rescuer(app.database, lease_seconds=3.0).run_once()
            n += 1
        assert worker.id == first
        holder.rollback()
        assert await run.wait(timeout=60) == "through"
        await eventually(lambda: engine.one("SELECT count(*) FROM rota.open_runs") == 0, 60)
    assert engine.attempt_states(run.id) == ["succeeded"]
    assert sorted(begun, key=str) == sorted(["gate", *range(n)], key=str)
