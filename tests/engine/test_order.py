"""Which run is next: priorities, queues, pauses, jobs that nobody knows."""

from __future__ import annotations

import asyncio

import pytest

import rota
from rota.testing import Clock, eventually, run_due
from tests.conftest import MakeApp
from tests.sql_engine import Engine

pytestmark = pytest.mark.both_servers

ONE = {"concurrency": 1}


async def test_priority_then_age(make_app: MakeApp) -> None:
    app = make_app(worker=ONE)
    seen: list[int] = []

    @app.job
    async def note(n: int) -> None:
        seen.append(n)

    for n, priority in enumerate([5, 0, 9, 5, 0]):
        await note.options(priority=priority).enqueue(n=n)
    await run_due(app)
    assert seen == [1, 4, 0, 3, 2]


async def test_no_queue_starves(make_app: MakeApp) -> None:
    app = make_app(worker=ONE)
    seen: list[str] = []

    @app.job
    async def note(ctx: rota.Context) -> None:
        seen.append(ctx.queue)
        await asyncio.sleep(0.002)

    await app.enqueue_many([note.options(queue="full").call() for _ in range(300)])
    await app.enqueue_many([note.options(queue=f"q{n}").call() for n in range(4)])
    await run_due(app)
    assert len(seen) == 304
    behind = [seen.index(f"q{n}") for n in range(4)]
    assert max(behind) < 250, "the small queues waited for the whole backlog of the full one"


async def test_only_its_own_queues(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(worker={"queues": ["mail"]})

    @app.job(queue="mail")
    async def mine() -> str:
        return "done"

    @app.job
    async def not_mine() -> None: ...

    other, run = await not_mine.enqueue(), await mine.enqueue()
    async with app.worker():
        assert await run.wait(20) == "done"
    assert engine.state(other.id) == "queued"


async def test_a_queue_that_appears_later_is_found(app: rota.App) -> None:
    @app.job
    async def note() -> str:
        return "done"

    async with app.worker():
        run = await note.options(queue="never heard of").enqueue()
        assert await run.wait(20) == "done"


async def test_a_paused_queue_waits_and_goes_on(app: rota.App, engine: Engine) -> None:
    @app.job
    async def note(n: int) -> int:
        return n

    await app.database.open()
    engine.conn.execute("SELECT rota.pause_queue('mail')")
    held = await note.options(queue="mail").enqueue(n=1)
    async with app.worker():
        assert await (await note.enqueue(n=2)).wait(20) == 2
        assert engine.state(held.id) == "queued"
        engine.conn.execute("SELECT rota.resume_queue('mail')")
        assert await held.wait(20) == 1


async def test_an_unknown_job_waits_and_is_then_run_by_who_knows_it(
    make_app: MakeApp, engine: Engine
) -> None:
    knowing, other = make_app(), make_app()

    @knowing.job
    async def rare() -> str:
        return "done"

    @other.job
    async def common() -> str:
        return "done"

    run = await rare.enqueue()
    async with other.worker():
        assert await (await common.enqueue()).wait(20) == "done"
        await eventually(lambda: engine.run(run.id)["held_by"] == "no_worker")
        async with knowing.worker():
            assert await run.wait(20) == "done"


async def test_an_unknown_job_fails_in_the_end(
    make_app: MakeApp, engine: Engine, clock: Clock
) -> None:
    knowing, other = make_app(), make_app()

    @knowing.job
    async def rare() -> None: ...

    @other.job
    async def common() -> None: ...

    run = await rare.enqueue()
    async with other.worker():
        await eventually(lambda: engine.run(run.id)["held_by"] == "no_worker")
        clock.advance(86401)
        await eventually(lambda: engine.state(run.id) == "failed")
    assert (await run.info()).end_reason == "unknown job"


async def test_more_runs_than_slots_all_run(make_app: MakeApp) -> None:
    app = make_app(worker={"concurrency": 3, "claim_size": 7})
    running, most = 0, 0

    @app.job
    async def step(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return n

    runs = await app.enqueue_many([step.call(n=n) for n in range(300)])
    await run_due(app)
    assert [await run.wait(1) for run in runs[-3:]] == [297, 298, 299]
    assert most == 3


async def test_claimed_ahead_runs_are_given_up_to_others(make_app: MakeApp) -> None:
    """Fast runs teach a worker to claim hundreds; when the next ones are slow, they go back."""
    app = make_app(worker={"concurrency": 2})
    stuck = asyncio.Event()
    done_by: dict[int, int] = {}

    @app.job
    async def fast() -> None: ...

    @app.job
    async def slow(ctx: rota.Context, n: int) -> None:
        done_by[n] = ctx._attempt.worker
        if n < 2:
            await stuck.wait()

    await app.enqueue_many([fast.call() for _ in range(3000)])
    await app.enqueue_many([slow.call(n=n) for n in range(100)])
    async with app.worker() as first:
        await eventually(lambda: {0, 1} <= set(done_by))
        async with app.worker() as second:
            await eventually(lambda: len(done_by) == 100)
            assert set(done_by.values()) == {first.id, second.id}
            stuck.set()
