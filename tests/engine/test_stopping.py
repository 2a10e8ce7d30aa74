"""Timeouts and cancels of what runs, in each executor."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import rota
from rota.engine.loops.upkeep import Upkeep
from rota.testing import eventually, run_due
from tests.conftest import MakeApp
from tests.engine import bodies
from tests.sql_engine import Engine


def declare(app: rota.App, executor: str, ended: threading.Event, **options: Any) -> Any:
    """A job that lasts until it is stopped."""
    if executor == "async":

        @app.job(**options)
        async def last() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        return last
    if executor == "thread":

        @app.job(executor="thread", **options)
        def last_thread(ctx: rota.Context) -> None:
            while not ctx.is_cancelled:
                time.sleep(0.01)
            ended.set()

        return last_thread
    ended.set()
    return app.job(executor="process", **options)(bodies.last_for_ever)


EXECUTORS = ["async", "thread", "process"]


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_timeout_ends_the_attempt(app: rota.App, engine: Engine, executor: str) -> None:
    ended = threading.Event()
    job = declare(app, executor, ended, timeout=0.3, max_attempts=2)
    run = await job.enqueue()
    await run_due(app)
    assert ended.is_set()
    assert engine.attempt_states(run.id) == ["timed_out", "timed_out"]
    first, _ = engine.attempts(run.id)
    assert first["error"] == "attempt exceeded its timeout of 0.3 s"
    assert first["error_type"] == "AttemptTimeout"
    info = await run.info()
    assert (info.state, info.end_reason) == ("failed", "attempts used up")


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_running_attempt_is_cancelled_on_request(
    app: rota.App, engine: Engine, executor: str
) -> None:
    ended = threading.Event()
    job = declare(app, executor, ended)
    run = await job.enqueue()
    async with app.worker():
        await eventually(lambda: engine.state(run.id) == "running")
        assert await run.cancel("enough") == "requested"
        with pytest.raises(rota.RunFailed, match="enough"):
            await run.wait(20)
    assert ended.is_set()
    assert engine.attempt_states(run.id) == ["cancelled"]
    assert (await run.info()).attempts_used == 0


async def test_a_body_that_catches_its_cancellation_has_timed_out_all_the_same(
    app: rota.App, engine: Engine
) -> None:
    @app.job(timeout=0.2, max_attempts=1)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "as if nothing had happened"
        return ""

    run = await stubborn.enqueue()
    await run_due(app)
    assert engine.attempt_states(run.id) == ["timed_out"]


async def test_a_slot_works_on_after_a_timeout(make_app: Any, engine: Engine) -> None:
    app = make_app(worker={"concurrency": 1})

    @app.job(timeout=0.2, max_attempts=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.job
    async def quick() -> str:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        return "done"

    await slow.enqueue()
    run = await quick.enqueue()
    await run_due(app)
    assert await run.wait(1) == "done"


async def test_the_timeout_of_an_enqueue_beats_the_jobs(app: rota.App, engine: Engine) -> None:
    ended = threading.Event()
    job = declare(app, "async", ended, timeout=500, max_attempts=1)
    run = await job.options(timeout=0.2).enqueue()
    await run_due(app)
    assert engine.attempts(run.id)[0]["error"] == "attempt exceeded its timeout of 0.2 s"


async def test_cancelling_one_run_leaves_the_others(app: rota.App, engine: Engine) -> None:
    go_on = asyncio.Event()

    @app.job
    async def wait(n: int) -> int:
        await go_on.wait()
        return n

    first, second = await wait.enqueue(n=1), await wait.enqueue(n=2)
    async with app.worker():
        await eventually(lambda: engine.state(second.id) == "running")
        await first.cancel()
        with pytest.raises(rota.RunFailed):
            await first.wait(20)
        go_on.set()
        assert await second.wait(20) == 2


async def test_a_body_that_cancels_itself_costs_no_slot(make_app: MakeApp) -> None:
    app = make_app(worker={"concurrency": 1})

    @app.job(max_attempts=1)
    async def rude() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @app.job
    async def polite() -> str:
        return "thank you"

    first = await rude.enqueue()
    async with app.worker():
        with pytest.raises(rota.RunFailed, match="CancelledError"):
            await first.wait(20)
        assert await (await polite.enqueue()).wait(20) == "thank you"


_LEAVES_ITS_WORKER = """
import asyncio, rota, sys

app = rota.App(sys.argv[1])
started = asyncio.Event()

@app.job
async def work() -> None:
    started.set()
    await asyncio.Event().wait()

async def main() -> None:
    await work.enqueue()
    await app.worker().__aenter__()
    await started.wait()

asyncio.run(main())
print("left")
"""


def test_a_program_that_leaves_its_worker_running_ends(database_url: str) -> None:
    """Its loop cancels what is left and waits for it."""
    program = subprocess.run(
        [sys.executable, "-c", _LEAVES_ITS_WORKER, database_url],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert program.stdout == "left\n", program.stderr


async def test_a_worker_that_stops_parks_nothing_that_it_would_run(
    make_app: MakeApp, engine: Engine
) -> None:
    """It is no longer counted among those that know the job; it comes back in a moment."""
    engine.job("work")
    run = engine.enqueue("work")
    app = make_app()
    await app.database.open()
    upkeep = Upkeep(app.database, unknown_job_seconds=60, refused_payload_seconds=60)
    upkeep.is_leaving = True
    await upkeep.run_once()
    assert engine.run(run)["held_by"] is None
    upkeep.is_leaving = False
    await upkeep.run_once()
    assert engine.run(run)["held_by"] == "no_worker"
