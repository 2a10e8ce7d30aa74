"""PgQueuer with a pool of four asyncpg connections, batches of 500, and uvloop."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time

import asyncpg
import uvloop
from pgqueuer import AsyncpgPoolDriver, Job, PgQueuer, Queries  # type: ignore[import-not-found]

from bench.programs.marks import LIMIT, mark, numbers, ready, steps

BATCH, POOL, WARM_UP, JOB = 500, 4, 200, "noop"


def payload(n: int) -> bytes:
    return b'{"n":%d}' % n


async def one(queries: Queries, count: int) -> None:
    for n in range(WARM_UP):
        await queries.enqueue(JOB, payload(n + 1))
    started = time.perf_counter()
    for n in range(count):
        await queries.enqueue(JOB, payload(n + 1))
    print(json.dumps({"seconds": time.perf_counter() - started}))


async def bulk(queries: Queries, count: int) -> None:
    started = time.perf_counter()
    await queries.enqueue([JOB] * count, [payload(n) for n in numbers(count)], [0] * count)
    print(json.dumps({"seconds": time.perf_counter() - started}))


async def paced(queries: Queries, count: int, milliseconds: int) -> None:
    sent = []
    for n in range(count):
        await queries.enqueue(JOB, payload(n))
        sent.append(time.time_ns())
        await asyncio.sleep(milliseconds / 1000)
    print(json.dumps({"sent": sent}))


async def steady(queries: Queries, rate: int, seconds: int) -> None:
    started, runs = time.perf_counter(), 0
    for at, part in steps(rate, seconds):
        await asyncio.sleep(started + at - time.perf_counter())
        await queries.enqueue([JOB] * part, [payload(n + 1) for n in range(part)], [0] * part)
        runs += part
    print(json.dumps({"runs": runs, "seconds": time.perf_counter() - started}))


async def work(driver: AsyncpgPoolDriver) -> None:
    queuer = PgQueuer(driver)

    @queuer.entrypoint(JOB)  # type: ignore[untyped-decorator]
    async def noop(job: Job) -> None:
        n = json.loads(job.payload)["n"]
        if n <= LIMIT:
            mark(n)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    # It does not say when it listens; the warm-up runs come after this.
    asyncio.get_running_loop().call_later(0.5, ready)
    await queuer.qm.run(batch_size=BATCH)


async def main(command: str, *words: str) -> None:
    async with asyncpg.create_pool(min_size=POOL, max_size=POOL) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        match command:
            case "prepare":
                await queries.install()
            case "one":
                await one(queries, int(words[0]))
            case "bulk":
                await bulk(queries, int(words[0]))
            case "paced":
                await paced(queries, int(words[0]), int(words[1]))
            case "steady":
                await steady(queries, int(words[0]), int(words[1]))
            case "work":
                await work(driver)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
