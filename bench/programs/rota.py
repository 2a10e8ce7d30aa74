"""Rota with its defaults. Its workers are `rota worker`, so there is no `work` here."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import uvloop

from bench.apps import noop as jobs
from bench.programs.marks import numbers, steps
from rota.jobs.batch import Call

WARM_UP = 200

app = jobs.app
job = getattr(jobs, os.environ.get("BENCH_JOB", "noop"))


async def one(count: int) -> None:
    for n in range(WARM_UP):
        await job.enqueue(n=n + 1)
    started = time.perf_counter()
    for n in range(count):
        await job.enqueue(n=n + 1)
    print(json.dumps({"seconds": time.perf_counter() - started}))


def one_sync(count: int) -> None:
    for n in range(WARM_UP):
        job.enqueue_sync(n=n + 1)
    started = time.perf_counter()
    for n in range(count):
        job.enqueue_sync(n=n + 1)
    print(json.dumps({"seconds": time.perf_counter() - started}))
    app.close_sync()


def calls(count: int) -> list[Call]:
    lanes = _lanes()
    return [lanes[i % len(lanes)].call(n=n) for i, n in enumerate(numbers(count))]


def _lanes() -> list[Any]:
    queues = int(os.environ.get("BENCH_QUEUES", "1"))
    tenants = int(os.environ.get("BENCH_TENANTS", "0"))
    if tenants:
        return [job.options(tenant=f"tenant-{n}") for n in range(tenants)]
    return [job] if queues == 1 else [job.options(queue=f"queue-{n}") for n in range(queues)]


async def bulk(count: int) -> None:
    async with app.database.connection():
        pass  # a connection to the server is not what is measured
    started = time.perf_counter()
    await app.enqueue_many(calls(count))
    print(json.dumps({"seconds": time.perf_counter() - started}))


async def paced(count: int, milliseconds: int) -> None:
    sent = []
    for n in range(count):
        await job.enqueue(n=n)
        sent.append(time.time_ns())
        await asyncio.sleep(milliseconds / 1000)
    print(json.dumps({"sent": sent}))


async def steady(rate: int, seconds: int) -> None:
    async with app.database.connection():
        pass
    started, runs = time.perf_counter(), 0
    for at, part in steps(rate, seconds):
        await asyncio.sleep(started + at - time.perf_counter())
        await app.enqueue_many([job.call(n=n + 1) for n in range(part)])
        runs += part
    print(json.dumps({"runs": runs, "seconds": time.perf_counter() - started}))


async def main(command: str, *numbers: str) -> None:
    async with app:
        match command:
            case "one":
                await one(int(numbers[0]))
            case "bulk":
                await bulk(int(numbers[0]))
            case "paced":
                await paced(int(numbers[0]), int(numbers[1]))
            case "steady":
                await steady(int(numbers[0]), int(numbers[1]))


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        app.migrate()
        uvloop.run(main("prepare"))  # to open the database registers the jobs
    elif sys.argv[1:2] == ["one"] and sys.argv[-1] == "sync":
        one_sync(int(sys.argv[2]))
    else:
        uvloop.run(main(*sys.argv[1:]))
