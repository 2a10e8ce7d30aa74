"""What type checkers must know about jobs and their runs. Read by them alone, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, assert_type

import rota
import rota.types

app = rota.App()


@dataclass
class Receipt:
    number: int


@app.job
async def charge(ctx: rota.Context, customer: int, cents: int = 100) -> Receipt:
    return Receipt(customer + cents)


@app.job(queue="mail", max_attempts=3)
async def send(user_id: int) -> dict[str, str]:
    return {"to": str(user_id)}


@app.job
def add(a: int, b: int) -> int:
    return a + b


@app.job(executor="thread")
def report(ctx: rota.Context, day: str) -> str:
    return day


async def enqueue() -> None:
    run = await charge.enqueue(7, cents=5)
    assert_type(run, rota.Run[Receipt])
    assert_type(await run.wait(10), Receipt)
    assert_type(run.wait_sync(), Receipt)
    assert_type(await run.state(), rota.RunState)
    assert_type(run.state_sync(), rota.RunState)
    assert_type(await (await send.options(delay=60).enqueue(user_id=7)).wait(), dict[str, str])
    assert_type(add.enqueue_sync(1, b=2), rota.Run[int])
    many = await app.enqueue_many(add.call(n, n) for n in range(10))
    assert_type(many, list[rota.Run[int]])
    assert_type(await app.tenant("acme").enqueue(report, day="monday"), rota.Run[str])


async def enqueue_different_jobs() -> None:
    for run in await app.enqueue_many([add.call(1, 2), send.call(3)]):
        print(run.id, await run.wait())
    calls: list[rota.types.Call] = [add.call(1, 2), send.call(user_id=3)]
    assert_type(app.enqueue_many_sync(calls), list[rota.Run[Any]])
    results: list[rota.Run[int | str]] = [add.enqueue_sync(1, 2), report.enqueue_sync("monday")]
    assert_type(results[0].wait_sync(), int | str)
    assert_type(
        await app.tenant("acme").enqueue_many([send.call(1)]), list[rota.Run[dict[str, str]]]
    )
    await app.tenant("acme").enqueue_many([add.call(1, 2), send.call(3)])


async def call_directly(ctx: rota.Context) -> None:
    assert_type(add(1, 2), int)
    assert_type(await send(3), dict[str, str])
    later: Coroutine[Any, Any, dict[str, str]] = send(3)
    await later
    assert_type(await charge(ctx, 7), Receipt)
    assert_type(report(ctx, "monday"), str)


async def manage(run_id: int) -> None:
    assert_type((await app.runs.get(run_id)).state, rota.RunState)
    assert_type(await app.runs.get(run_id), rota.RunInfo)
    assert_type(await app.jobs.get("add"), rota.JobInfo)
    assert_type((await app.jobs.get("add")).kind, rota.JobKind)
    for attempt in (await app.runs.details(run_id)).attempts:
        assert_type(attempt.state, rota.AttemptState)


@app.job(timeout_seconds=30, is_enabled=False, delay_seconds=1, expires_in_seconds=60)
def by_columns(n: int) -> None: ...


async def name_columns() -> None:
    options = by_columns.options(delay_seconds=1, timeout_seconds=5, key="k", key_seconds=60)
    app.schedule("a", options, interval_seconds=60, is_shadow=True, is_enabled=False)
    await app.schedules.update("a", run_at=None, grace_seconds=5)
    await app.jobs.update("by_columns", timeout_seconds=None)
    await app.runs.enqueue("by_columns", {"n": 1}, expires_in_seconds=60)
    rota.every(60, is_enabled=False, timeout_seconds=5)


def keep() -> None:
    later: rota.types.BoundJob[[int], dict[str, str]] = send.options(delay=60)
    assert_type(later.call(7), rota.types.Call[dict[str, str]])
    nightly: rota.types.DeclaredSchedule = rota.cron("0 2 * * *")
    assert_type(nightly.name, str | None)


def any_job(job: rota.Job, run: rota.Run) -> rota.Run:
    job.enqueue_sync(anything="goes")
    return run


any_job(add, add.enqueue_sync(1, 2))


@asynccontextmanager
async def own_lifespan(app: rota.App) -> AsyncIterator[dict[str, int]]:
    yield {"port": 1}


hooked = rota.App(lifespan=own_lifespan)


@hooked.lifespan
async def client() -> AsyncIterator[dict[str, str]]:
    yield {"client": "c"}


@hooked.lifespan
def pool() -> Iterator[None]:
    yield


@hooked.around_attempt
async def measured(ctx: rota.Context) -> AsyncIterator[None]:
    assert_type(ctx.state["client"], Any)
    yield


@hooked.around_attempt
@contextmanager
def bound(ctx: rota.Context) -> Iterator[None]:
    yield


@hooked.around_enqueue
def with_request(calls: list[rota.types.Call]) -> Iterator[None]:
    calls[:] = [call.with_options(metadata={"request": "r"}) for call in calls]
    yield


@hooked.on_failure
async def capture(ctx: rota.Context, failure: rota.AttemptFailure) -> None:
    print(ctx.job, failure.error, failure.is_final)


def capture_sync(ctx: rota.Context, failure: rota.AttemptFailure) -> None: ...


@hooked.job(on_failure=capture_sync)
async def reported(n: int) -> int:
    return n


assert_type(reported.enqueue_sync(1), rota.Run[int])
assert_type(client(), AsyncIterator[dict[str, str]])
