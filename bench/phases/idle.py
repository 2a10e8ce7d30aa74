"""Idle workers: one run every 10 ms, and 1, 4, 16 or 50 worker processes that could take it.

Claims are counted by the server's own count of calls, commits by its statistics, CPU by its
processes; pick-up is from the run's creation to the start of its body, as the run itself tells.
`result` is what one who enqueues and waits for the result sees, one run after the other. `rest` is
what the same workers ask while there is nothing at all to do, all loops together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from psycopg import sql

import rota
from bench.phases.base import Case, Phase, Sizes, only_rota
from bench.server import Conn
from bench.systems.base import System

_PACE_SECONDS = 0.01
_SETTLE_SECONDS = 3.0
# A backend that has fallen idle reports its commits and calls up to 10 s later: those of the start
# would count as rest, and the last second of runs not at all.
_REPORT_SECONDS = 11.0
_CLAIMS = """
    SELECT calls FROM pg_stat_user_functions WHERE schemaname = 'rota' AND funcname = 'claim_runs'
"""
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_OPEN = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND application_name LIKE 'rota%' AND application_name <> 'rota bench'
"""
_WAITS = """
    SELECT percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP
        (ORDER BY extract(epoch FROM started_at - created_at) * 1000)
    FROM rota.runs WHERE id > %s AND state = 'succeeded'
"""


def cases(sizes: Sizes) -> Sequence[Case]:
    return [
        Case(f"{count} workers", partial(_measure, count=count, sizes=sizes), only_rota)
        for count in sizes.idle_workers
    ]


def _measure(system: System, count: int, sizes: Sizes) -> dict[str, float]:
    system.fresh()
    runs = sizes.idle_runs
    report_seconds = min(_REPORT_SECONDS, 2 * sizes.rest_seconds)
    with system.server.connect(system.database) as conn:
        name = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET track_functions = 'pl'").format(name))
        with system.workers(count):
            time.sleep(_SETTLE_SECONDS + report_seconds)
            rest = _rest(conn, sizes.rest_seconds) / count
            first = _value(conn, "SELECT last_value FROM rota.run_ids")
            before, cpu_before = _counts(conn), _cpu_seconds(system)
            begun = time.monotonic()
            for n in range(runs):
                time.sleep(max(0.0, begun + n * _PACE_SECONDS - time.monotonic()))
                conn.execute("SELECT rota.enqueue('noop', '{\"n\": 1000000000}')")
            while _value(conn, "SELECT count(*) FROM rota.open_runs"):
                time.sleep(0.1)
            cpu, opened = _cpu_seconds(system) - cpu_before, _value(conn, _OPEN)
            time.sleep(report_seconds)
            after = _counts(conn)
            (waits,) = conn.execute(_WAITS, [first]).fetchone() or (None,)
            results = asyncio.run(_results(system.server.url_of(system.database), runs))
    claims, commits = ((a - b) / runs for a, b in zip(after, before, strict=True))
    return {
        "claims/run": claims,
        "commits/run": commits,
        "server CPU µs/run": cpu / runs * 1e6,
        "p50 ms": float((waits or [0])[0]),
        "p99 ms": float((waits or [0])[-1]),
        "result p50 ms": results[len(results) // 2] * 1000,
        "result p99 ms": results[int(len(results) * 0.99)] * 1000,
        "connections": opened,
        "rest commits/s/worker": rest,
    }


def _rest(conn: Conn, seconds: float) -> float:
    before = _value(conn, _COMMITS)
    time.sleep(seconds)
    # Not this connection's own.
    return max(0.0, _value(conn, _COMMITS) - before - 1) / seconds if seconds else 0.0


def _counts(conn: Conn) -> tuple[float, float]:
    conn.execute("SELECT pg_stat_force_next_flush()")
    return _value(conn, _CLAIMS), _value(conn, _COMMITS)


def _cpu_seconds(system: System) -> float:
    return system.server.cpu_seconds() or 0.0


async def _results(url: str, runs: int) -> list[float]:
    """Seconds from before the enqueue to the result in hand."""
    seconds = []
    async with rota.App(url) as app:

        @app.job
        async def noop(n: int) -> None: ...

        for _ in range(runs):
            begun = time.perf_counter()
            await (await noop.enqueue(n=1_000_000_000)).wait()
            seconds.append(time.perf_counter() - begun)
    return sorted(seconds)


def _value(conn: Conn, query: str) -> float:
    row = conn.execute(query.encode()).fetchone()
    return float(row[0] or 0) if row else 0.0


PHASE = Phase("idle", cases)
