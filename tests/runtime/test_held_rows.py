"""An open transaction on one row holds up that row's work, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import psycopg
import pytest

import rota
from rota.runtime.definitions import Definitions
from rota.runtime.promoter import Promoter
from rota.runtime.upkeep import Upkeep
from rota.testing.patience import eventually
from tests.conftest import MakeApp
from tests.engine import Engine

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]


@pytest.fixture
def holder(connect: Connect) -> Iterator[Connection]:
    """Somebody who leaves a transaction open in psql."""
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


async def test_the_promoter_passes_over_a_held_run_and_does_not_spin(
    app: rota.App, engine: Engine, holder: Connection
) -> None:
    engine.job("work")
    held, other = (engine.enqueue(delay="60 seconds") for _ in range(2))
    engine.advance(61)
    holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [held])
    promoter = Promoter(app.database, poll_seconds=10)
    await app.database.open()
    assert 0.2 < await promoter.run_once() <= 1
    assert (engine.state(other), engine.state(held)) == ("queued", "scheduled")
    holder.rollback()
    assert await promoter.run_once() == 10
    assert engine.state(held) == "queued"


async def test_sweeping_passes_over_what_is_held(
    app: rota.App, engine: Engine, holder: Connection
) -> None:
    """A request to cancel that came late, of a held run; beside one that is free."""
    engine.job("work")
    worker = engine.worker()
    held, free = (engine.enqueue() for _ in range(2))
    claims = engine.claim(worker)
    for run in (held, free):
        engine.rows(
            "INSERT INTO rota.cancel_requests (run_id, attempt, worker, requested_by)"
            " VALUES (%s, 0, %s, 'ada')",
            run,
            worker,
        )
    engine.hand_back(worker, *claims)
    engine.rows("UPDATE rota.cancel_requests SET attempt = 0")
    holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [held])
    await app.database.open()
    await Upkeep(app.database, unknown_job_seconds=60).run_once()
    assert (engine.state(free), engine.state(held)) == ("cancelled", "queued")
    holder.rollback()
    await Upkeep(app.database, unknown_job_seconds=60).run_once()
    assert engine.state(held) == "cancelled"


async def test_one_duty_that_fails_keeps_no_other_from_being_done(
    app: rota.App, engine: Engine, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    engine.job("work")
    await app.database.open()
    engine.count_depths()
    engine.enqueue()
    engine.count_depths()
    engine.rows("UPDATE rota.depth_marks SET counted_at = '-infinity'")
    engine.rows("INSERT INTO rota.count_changes (name, amount) VALUES ('x', 1)")
    engine.rows("ALTER FUNCTION rota.count_depths(double precision) SET lock_timeout = '100ms'")
    holder.execute("UPDATE rota.depths SET held = 7")
    engine.enqueue()
    upkeep = Upkeep(app.database, unknown_job_seconds=60)
    await upkeep.run_once()
    await upkeep.run_once()
    assert engine.one("SELECT amount FROM rota.counts WHERE name = 'x'") == 1
    lines = [one for one in caplog.messages if "a duty failed" in one]
    assert ["depths" in lines[0], "parking" in lines[1]] == [True, True]
    assert len(lines) == 2  # both need that row; each is told once


async def test_a_held_job_keeps_no_other_from_being_registered(
    make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    def declare(app: rota.App, priority: int) -> None:
        @app.job(name="held", priority=priority)
        async def held() -> None: ...

        @app.job(name="free", priority=priority)
        async def free() -> None: ...

    before, after = make_app(), make_app()
    declare(before, 3)
    await before.database.open()
    declare(after, 7)
    holder.execute("UPDATE rota.jobs SET description = 'x' WHERE name = 'held'")
    await after.database.open()
    priorities = "SELECT name, priority FROM rota.jobs WHERE name IN ('held', 'free')"
    found = {row["name"]: row["priority"] for row in engine.rows(priorities)}
    assert found == {"free": 7, "held": 3}
    definitions = Definitions(after.database, after.config, after.registry, AsyncMock())
    await definitions.announce(engine.worker("held", "free"), after.registry.version)
    holder.rollback()
    await definitions.run_once()
    found = {row["name"]: row["priority"] for row in engine.rows(priorities)}
    assert found == {"free": 7, "held": 7}


async def test_a_held_init_schedule_waits_and_the_start_does_not(
    make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    app = make_app()

    @app.job(schedules=[rota.init("start")])
    async def prepare() -> None: ...

    @app.job(schedules=[rota.init("start")])
    async def other() -> None: ...

    await app.database.open()
    holder.execute("UPDATE rota.schedules SET description = 'x' WHERE name = 'prepare'")
    definitions = Definitions(app.database, app.config, app.registry, AsyncMock())
    await definitions.announce(engine.worker("prepare", "other"), app.registry.version)
    jobs = "SELECT array_agg(job ORDER BY job) FROM rota.open_runs"
    assert engine.one(jobs) == ["other"]
    await definitions.run_once()
    assert engine.one(jobs) == ["other"]
    holder.rollback()
    await definitions.run_once()
    assert engine.one(jobs) == ["other", "prepare"]
    await definitions.run_once()
    assert engine.one(jobs) == ["other", "prepare"]


@pytest.mark.parametrize("how", ["succeeds", "fails", "is retried"])
async def test_a_run_whose_row_is_held_keeps_its_worker_from_nothing_else(
    make_app: MakeApp, holder: Connection, how: str
) -> None:
    """Its end waits for the holder; the runs beside it end, and others are claimed."""
    app = make_app()
    go = asyncio.Event()

    @app.job(
        max_attempts=2 if how == "is retried" else 1, backoff=rota.Backoff("fixed", 0.01, jitter=0)
    )
    async def held() -> None:
        if go.is_set():
            return
        await go.wait()
        if how != "succeeds":
            raise RuntimeError

    @app.job
    async def quick() -> None: ...

    async with app, app.worker():
        first = await held.enqueue()
        await eventually(lambda: _is_running(app, first))
        holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [first.id])
        go.set()
        for _ in range(3):
            await (await quick.enqueue()).wait(timeout=20)
        assert (await app.runs.get(first.id)).state == "running"
        holder.rollback()
        ended = await app.runs.wait(first.id, 20)
        assert ended.state == ("failed" if how == "fails" else "succeeded")


async def _is_running(app: rota.App, run: rota.Run) -> None:
    assert (await app.runs.get(run.id)).state == "running"
