"""What type checkers must know about jobs and their runs. Read by them alone, never run."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

import rota

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
    assert_type(await (await send.options(delay=60).enqueue(user_id=7)).wait(), dict[str, str])
    assert_type(add.enqueue_sync(1, b=2), rota.Run[int])
    many = await app.enqueue_many(add.call(n, n) for n in range(10))
    assert_type(many, list[rota.Run[int]])
    assert_type(await app.tenant("acme").enqueue(report, day="monday"), rota.Run[str])


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


def any_job(job: rota.Job, run: rota.Run) -> rota.Run:
    job.enqueue_sync(anything="goes")
    return run


any_job(add, add.enqueue_sync(1, 2))
