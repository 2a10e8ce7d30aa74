"""How many connections a worker takes, and what it does when the server has none left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rota
from rota.postgres.sessions import connection_pools
from rota.testing import eventually
from tests.conftest import MakeApp, load_config
from tests.sql_engine import Engine

_OPEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'rota%%'"
)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is: a statement that takes long is another matter."""
    monkeypatch.setattr(connection_pools, "_PATIENCE", (60.0, 60.0))
    monkeypatch.setattr(connection_pools, "_UNHURRIED", 60.0)


async def until_waiting(engine: Engine) -> None:
    await eventually(lambda: engine.one("SELECT bool_and(is_waiting) FROM rota.workers") is True)


async def test_an_idle_worker_has_at_most_four(
    patient: None, make_app: MakeApp, engine: Engine
) -> None:
    app = make_app()
    async with app.worker() as worker:
        await until_waiting(engine)
        beat = "SELECT heartbeat_at > started_at FROM rota.workers WHERE id = %s"
        await eventually(lambda: engine.one(beat, worker.id))
        assert engine.one(_OPEN) <= 4


async def test_a_busy_worker_has_at_most_six(
    patient: None, make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**{"worker.concurrency": 8})
    most = 0

    @app.job
    async def work(ctx: rota.Context, depth: int) -> None:
        nonlocal most
        ctx.log.info("working")
        if depth:
            await asyncio.gather(*(work.enqueue(depth=depth - 1) for _ in range(4)))
        most = max(most, engine.one(_OPEN))

    def is_done() -> bool:
        return bool(engine.one("SELECT count(*) = 0 FROM rota.open_runs"))

    async with app.worker():
        await asyncio.gather(*(work.enqueue(depth=2) for _ in range(10)))
        await eventually(is_done, timeout=60)
    assert 0 < most <= 6


@pytest.fixture
def tight(conn: psycopg.Connection[Any], database_url: str) -> Callable[[int], str]:
    """A URL whose role may have so many connections; again: change it."""
    owner = conninfo_to_dict(database_url)["user"]
    name = f"tight_{conn.info.backend_pid}"
    conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'tight' IN ROLE {owner}".encode())
    conn.execute(f"ALTER ROLE {name} SET role = '{owner}'".encode())

    def limit(most: int) -> str:
        conn.execute(f"ALTER ROLE {name} CONNECTION LIMIT {most}".encode())
        return make_conninfo(database_url, user=name, password="tight")

    return limit


async def test_a_full_server_is_worked_with_and_said_once(
    tight: Callable[[int], str],
    engine: Engine,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two are enough: one that claims, one for all else. The lease goes over the second one."""
    caplog.set_level("INFO", "rota")
    app = rota.App(config=load_config(tight(2), {}))

    @app.job
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n

    beat = (
        "SELECT heartbeat_at - started_at > lease_seconds * interval '1.2 s' FROM rota.workers"
        " WHERE id = %s"
    )
    async with app.worker() as worker:
        first = worker.id
        run = await work.enqueue(n=1)
        await eventually(lambda: engine.state(run.id) == "succeeded")
        await eventually(lambda: engine.one(beat, first), timeout=30)
        assert worker.id == first
        messages = [message for message in caplog.messages if "no connections left" in message]
        assert len(messages) == 1
        assert "wanted" in messages[0]
        tight(50)
        await until_waiting(engine)
        await eventually(lambda: "connections again" in caplog.text)
    await app.close()


async def test_a_worker_waits_for_a_server_that_is_full_when_it_starts(
    tight: Callable[[int], str], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    app = rota.App(config=load_config(tight(0), {}))
    worker = app.worker()
    starting = asyncio.create_task(worker.start())
    await eventually(lambda: "no connections left" in caplog.text)
    tight(50)
    await starting
    await until_waiting(engine)
    await worker.stop()
    await app.close()
