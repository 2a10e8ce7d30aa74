"""A short measurement in a schema of its own, which is dropped afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import quantiles

from psycopg import sql

from rota.app import App
from rota.benchmark import floor
from rota.benchmark.results import Measurement, middle
from rota.config import Config
from rota.postgres.sessions.opening import Session, own

SCHEMA = "rota_bench"
_ONE_BY_ONE = 500
_LATENCY_RUNS = 100
_LATENCY_PAUSE = 0.02


async def run_benchmark(
    config: Config, *, runs: int, rounds: int, say: Callable[[str], None]
) -> list[Measurement]:
    """Rota and the floor in turns; the median of the rounds."""
    app = App(config=config.override({"schema": SCHEMA}))
    await asyncio.to_thread(app.migrate)
    bench = _Benchmark(app, runs)
    try:
        measured = []
        for number in range(1, rounds + 1):
            say(f"round {number} of {rounds}")
            measured.append(await bench.round())
        return middle(measured)
    finally:
        await asyncio.to_thread(_drop, await app.database.open())
        await app.close()


def _drop(url: str) -> None:
    with Session.connect(url, **own("rota bench")) as conn:
        conn.execute("SET client_min_messages = warning")
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(SCHEMA)))


class _Benchmark:
    def __init__(self, app: App, runs: int) -> None:
        self._app = app
        self._runs = runs
        self._left = 0
        self._done = asyncio.Event()
        self._picked_up: list[float] = []

        @app.job(name="rota_bench_noop")
        async def noop(n: int) -> None:
            self._left -= 1
            if not self._left:
                self._done.set()

        @app.job(name="rota_bench_ping")
        async def ping(at: float) -> None:
            self._picked_up.append((time.perf_counter() - at) * 1000)

        self._noop, self._ping = noop, ping

    async def round(self) -> list[Measurement]:
        bulk = await self._fill()
        floor_rate = await floor.claim_and_finish_all(self._app, self._noop.name, self._runs)
        await self._fill()
        rota_rate = await self._run_all()
        p50, p99 = await self._latency()
        return [
            await self._one_by_one(),
            Measurement("enqueue in bulk", "runs/s", bulk),
            Measurement("throughput, one process", "runs/s", rota_rate, floor_rate),
            Measurement("pick-up p50", "ms", p50),
            Measurement("pick-up p99", "ms", p99),
        ]

    async def _fill(self) -> float:
        self._left, self._done = self._runs, asyncio.Event()
        started = time.perf_counter()
        await self._app.enqueue_many([self._noop.call(n=n) for n in range(self._runs)])
        return self._runs / (time.perf_counter() - started)

    async def _run_all(self) -> float:
        async with self._app.worker():
            started = time.perf_counter()
            await self._done.wait()
            return self._runs / (time.perf_counter() - started)

    async def _latency(self) -> tuple[float, float]:
        self._picked_up = []
        async with self._app.worker():
            await asyncio.sleep(0.5)  # until it waits
            for _ in range(_LATENCY_RUNS):
                await self._ping.enqueue(time.perf_counter())
                await asyncio.sleep(_LATENCY_PAUSE)
        steps = quantiles(self._picked_up, n=100)
        return steps[49], steps[98]

    async def _one_by_one(self) -> Measurement:
        started = time.perf_counter()
        for n in range(_ONE_BY_ONE):
            await self._noop.enqueue(n)
        rota = _ONE_BY_ONE / (time.perf_counter() - started)
        below = await floor.enqueue_one_by_one(self._app, self._noop.name, _ONE_BY_ONE)
        await floor.claim_and_finish_all(self._app, self._noop.name, 2 * _ONE_BY_ONE)
        return Measurement("enqueue one by one", "runs/s", rota, below)
