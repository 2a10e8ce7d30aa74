"""The end of a worker: what runs finishes, what has not started goes back, all is written."""

from __future__ import annotations

import asyncio
import re

import pytest

import rota
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_loops


def worker_states(engine: Engine) -> list[str]:
    return [row["state"] for row in engine.rows("SELECT state FROM rota.workers ORDER BY id")]


async def test_what_runs_finishes(app: rota.App, engine: Engine) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def slow(ctx: rota.Context) -> str:
        started.set()
        await go_on.wait()
        ctx.log.info("the last line")
        return "done"

    run = await slow.enqueue()
    worker = app.worker()
    await worker.start()
    await asyncio.wait_for(started.wait(), 20)
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker_states(engine) == ["stopping"])
    late = await slow.enqueue()
    go_on.set()
    await stopping
    assert await run.wait(1) == "done"
    assert engine.state(late.id) == "queued"
    assert worker_states(engine) == ["gone"]
    assert engine.one("SELECT message FROM rota.logs") == "the last line"


async def test_what_has_not_started_goes_back_unspent(
    make_app: MakeApp, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rota")
    app = make_app(worker={"concurrency": 2})
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def fast() -> None: ...

    @app.job
    async def slow(n: int) -> None:
        started.set()
        await go_on.wait()

    await app.enqueue_many([fast.call() for _ in range(2000)])
    await app.enqueue_many([slow.call(n=n) for n in range(300)])
    worker = app.worker()
    await worker.start()
    await asyncio.wait_for(started.wait(), 20)
    stopping = asyncio.create_task(worker.stop())

    def only_the_running_are_left() -> None:
        assert engine.one("SELECT count(*) FROM rota.open_runs WHERE state = 'running'") <= 2

    await eventually(only_the_running_are_left)
    go_on.set()
    await stopping
    rows = engine.rows(
        "SELECT state, attempts_used, count(*) AS n FROM rota.open_runs GROUP BY 1, 2"
    )
    (left,) = rows
    assert (left["state"], left["attempts_used"]) == ("queued", 0)
    assert left["n"] >= 290
    (said,) = re.findall(r"worker stopping\s+handed_back=(\d+)", caplog.text)
    assert int(said) > 0
    assert engine.one("SELECT count(*) FROM rota.past_attempts") == 0


async def test_after_the_limit_it_is_cut_off_and_queued_unspent(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(worker={"shutdown_seconds": 0})
    started, cleaned = asyncio.Event(), asyncio.Event()

    @app.job(max_attempts=1)
    async def slow(ctx: rota.Context) -> int:
        if ctx.attempt == 1:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.set()
        return ctx.attempt

    run = await slow.enqueue()
    worker = app.worker()
    await worker.start()
    await asyncio.wait_for(started.wait(), 20)
    await worker.stop()
    assert cleaned.is_set()
    shown = engine.run(run.id)
    assert (shown["state"], shown["attempts_used"], shown["attempt"]) == ("queued", 0, 1)
    (attempt,) = engine.attempts(run.id)
    assert (attempt["state"], attempt["is_spent"]) == ("cancelled", False)
    assert attempt["message"] == "interrupted by a shutdown"
    async with app.worker():
        assert await run.wait(20) == 2


async def test_a_second_signal_does_not_wait(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(worker={"shutdown_seconds": 3600})
    started = asyncio.Event()

    @app.job
    async def slow() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await slow.enqueue()
    worker = app.worker()
    await worker.start()
    await asyncio.wait_for(started.wait(), 20)
    stopping = asyncio.create_task(worker.stop())
    await eventually(lambda: worker_states(engine) == ["stopping"])
    worker.hurry()
    await asyncio.wait_for(stopping, 20)
    assert engine.run(run.id)["state"] == "queued"
    assert worker_states(engine) == ["gone"]


async def test_starting_twice_is_an_error_and_stopping_twice_is_not(app: rota.App) -> None:
    worker = app.worker()
    await worker.stop()
    await worker.start()
    with pytest.raises(rota.RotaError, match="can be started only once"):
        await worker.start()
    await asyncio.gather(worker.stop(), worker.stop())
    await worker.stop()
    await worker.wait_stopped()
    with pytest.raises(rota.RotaError, match="can be started only once"):
        await worker.start()


async def test_nothing_is_left_behind(app: rota.App, engine: Engine) -> None:
    @app.job(executor="thread")
    def quick() -> int:
        return 1

    before = set(asyncio.all_tasks())
    worker = app.worker()
    await worker.start()
    await (await quick.enqueue()).wait(20)
    await worker.stop()
    await app.close()
    assert {task.get_name() for task in asyncio.all_tasks() - before} == set()

    def no_connections() -> None:
        rows = engine.rows(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
        assert rows == []

    await eventually(no_connections)
