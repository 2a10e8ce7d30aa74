"""What workers do for tenants: hold, free, count."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

import rota
from rota.engine.loops.tenants import TenantLoop
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine


async def test_a_worker_runs_nothing_of_a_paused_tenant(app: rota.App) -> None:
    ran: list[str] = []

    @app.job
    async def work(ctx: rota.Context) -> None:
        ran.append(ctx.tenant)

    acme, blue = app.tenant("acme"), app.tenant("blue")
    await acme.enqueue_many([work.call()] * 3)
    await acme.pause("unpaid")
    async with app.worker():
        run = await blue.enqueue(work)
        await app.runs.wait(run.id, timeout=20)
        assert ran == ["blue"]
        held = await acme.runs.list()
        assert {run.held_by for run in held} == {"tenant"}
        await acme.resume()
        await eventually(lambda: len(ran) == 4, timeout=20)


async def test_what_comes_is_held_within_a_moment(app: rota.App, engine: Engine) -> None:
    """No worker could take it: nobody knows the job."""
    engine.job("work")
    await app.tenants.pause("acme")
    async with app.worker():
        run = engine.enqueue(tenant="acme")
        await eventually(lambda: engine.run(run)["held_by"] == "tenant", timeout=20)
        await app.tenants.resume("acme")
        await eventually(lambda: engine.run(run)["held_by"] != "tenant", timeout=20)


async def test_runs_of_schedules_wait_too(app: rota.App, engine: Engine) -> None:
    release = asyncio.Event()

    @app.job
    async def work() -> None:
        release.set()

    acme = app.tenant("acme")
    await acme.pause()
    async with app.worker():
        await acme.schedules.create("s", "work", cron="@daily")
        made = int(engine.one("SELECT rota.trigger_schedule('s', tenant => 'acme')")["run_id"])
        await eventually(lambda: engine.run(made)["held_by"] == "tenant", timeout=20)
        assert not release.is_set()
        await acme.resume()
        async with asyncio.timeout(60):
            await release.wait()


async def test_how_soon_it_looks_again(app: rota.App, engine: Engine) -> None:
    loop = TenantLoop(app.database)
    assert await loop.run_once() == 5.0
    await app.tenants.pause("acme")
    assert await loop.run_once() == 1.0
    await app.tenants.resume("acme")
    assert await loop.run_once() == 5.0
    await app.tenants.set("acme", max_waiting=5)
    assert await loop.run_once() >= 1.0


async def test_one_worker_at_a_time(
    make_app: MakeApp, engine: Engine, conn: psycopg.Connection[Any]
) -> None:
    app = make_app()
    engine.job("work")
    engine.rows("SELECT rota.pause_tenant('acme')")
    engine.enqueue(tenant="acme")
    with conn.transaction():
        conn.execute("SELECT FROM rota.locks WHERE name = 'tenants' FOR UPDATE")
        await TenantLoop(app.database).run_once()
        row = conn.execute("SELECT held_by FROM rota.open_runs").fetchone()
        assert row == (None,)
    await TenantLoop(app.database).run_once()
    row = conn.execute("SELECT held_by FROM rota.open_runs").fetchone()
    assert row == ("tenant",)
