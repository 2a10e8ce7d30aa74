"""Procrastinate with its psycopg connector; its documentation names no faster settings than more
concurrency."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from bench.programs.marks import LIMIT, mark, numbers, ready

CONCURRENCY, WARM_UP = 24, 200

app = App(connector=PsycopgConnector(max_size=CONCURRENCY + 2))


@app.task(name="noop")  # type: ignore[untyped-decorator]
async def noop(n: int) -> None:
    if n <= LIMIT:
        mark(n)


async def one(count: int) -> None:
    for n in range(WARM_UP):
        await noop.defer_async(n=n + 1)
    started = time.perf_counter()
    for n in range(count):
        await noop.defer_async(n=n + 1)
    print(json.dumps({"seconds": time.perf_counter() - started}))


async def bulk(count: int) -> None:
    started = time.perf_counter()
    await noop.batch_defer_async(*({"n": n} for n in numbers(count)))
    print(json.dumps({"seconds": time.perf_counter() - started}))


async def paced(count: int, milliseconds: int) -> None:
    sent = []
    for n in range(count):
        await noop.defer_async(n=n)
        sent.append(time.time_ns())
        await asyncio.sleep(milliseconds / 1000)
    print(json.dumps({"sent": sent}))


async def work() -> None:
    # It handles SIGTERM itself; the warm-up runs come after this.
    asyncio.get_running_loop().call_later(1.0, ready)
    await app.run_worker_async(concurrency=CONCURRENCY)


async def main(command: str, *words: str) -> None:
    async with app.open_async():
        match command:
            case "prepare":
                await app.schema_manager.apply_schema_async()
            case "one":
                await one(int(words[0]))
            case "bulk":
                await bulk(int(words[0]))
            case "paced":
                await paced(int(words[0]), int(words[1]))
            case "work":
                await work()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
