"""Somebody locks a whole table against writes, as CREATE INDEX does: what does not need that table
goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rota.engine.loops.rescuer import Rescuer
from rota.engine.loops.upkeep import Upkeep
from rota.testing.patience import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

TABLES = [
    "keys", "queues", "limits", "tenants", "jobs", "schedules", "waits", "events", "limit_slots",
    "api_responses", "samples", "id_marks",
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
async def test_plain_runs_go_on(
    make_app: MakeApp,
    engine: Engine,
    connect: Callable[..., psycopg.Connection[Any]],
    table: str,
) -> None:
    app, go = make_app(**{"worker.queues": ["default"]}), asyncio.Event()

    @app.job
    async def gate() -> str:
        await go.wait()
        return "through"

    @app.job
    async def quick() -> None: ...

    engine.rows("SET statement_timeout = '20s'")
    holder = connect(autocommit=False)
    async with app, app.worker():
        keyed = await gate.options(key="k").enqueue()
        await eventually(lambda: engine.state(keyed.id) == "running", timeout=30)
        engine.rows(
            "INSERT INTO rota.limits (name, kind, cap, jobs)"
            " VALUES ('few', 'concurrency', 5, '{none}')"
        )
        stranger = engine.worker("quick")
        lost = [
            engine.enqueue("quick", queue="aside", max_attempts=1, **key)
            for key in ({"key": "lost"}, {})
        ]
        assert len(engine.claim(stranger, 5, ["aside"], ["quick"])) == 2
        expired = [
            engine.enqueue("quick", queue="aside", expires_in="10 milliseconds", **key)
            for key in ({"key": "expired"}, {})
        ]
        holder.execute(f"LOCK TABLE rota.{table} IN SHARE ROW EXCLUSIVE MODE".encode())
        go.set()
        for _ in range(20):
            run = await quick.enqueue()
            await eventually(lambda run=run: engine.state(run.id) == "succeeded", timeout=30)  # type: ignore[misc]
        engine.lose(stranger)
        rescuer = Rescuer(app.database, lease_seconds=60)
        upkeep = Upkeep(app.database, unknown_job_seconds=1e6, refused_payload_seconds=1e6)

        await rescuer.run_once()
        assert [engine.state(run) for run in lost] == ["failed", "failed"]
        await upkeep.run_once()
        left = "SELECT count(*) FROM rota.open_runs WHERE id = ANY (%s)"
        assert engine.one(left, expired) == 0
        holder.rollback()
        await eventually(lambda: engine.state(keyed.id) == "succeeded", timeout=30)
        assert engine.attempt_states(keyed.id) == ["succeeded"]
        await upkeep.run_once()
        assert engine.one("SELECT count(*) FROM rota.key_releases") == 0
