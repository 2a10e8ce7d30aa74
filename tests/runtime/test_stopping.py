"""Timeouts and cancels of what runs, in each executor."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import rota
from rota.testing import drain, eventually
from tests.engine import Engine
from tests.runtime import bodies


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
    await drain(app)
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
    await drain(app)
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
    await drain(app)
    assert await run.wait(1) == "done"


async def test_the_timeout_of_an_enqueue_beats_the_jobs(app: rota.App, engine: Engine) -> None:
    ended = threading.Event()
    job = declare(app, "async", ended, timeout=500, max_attempts=1)
    run = await job.options(timeout=0.2).enqueue()
    await drain(app)
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
