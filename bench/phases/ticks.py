"""The tick: a thousand schedules due at once for fifty tickers, a hundred due among a hundred
thousand, and how late an idle system is with a schedule of one second.

The tickers share one process and one event loop (the one that workers use), so they also share
its core; each has a connection of its own. The floor does with one bare statement what a tick
writes, and decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
import uvloop

from bench.phases.base import Case, Phase, Sizes, only_rota
from bench.server import Conn
from bench.systems.base import System
from rota.engine.loops.scheduler import Scheduler
from rota.postgres.queries import Query
from rota.postgres.sessions import driving
from rota.postgres.statements import Statements

T = TypeVar("T")
_TICKERS = 50
_BATCH = 200
# More than the driver and the server take to settle on prepared statements and on plans.
_WARM_UP_TICKS = 6

_FILL = """
    WITH made AS (
        INSERT INTO rota.schedules (name, job, payload, interval_seconds, anchor_at)
        SELECT 's' || i || now(), 'noop', '{"n": 1}', 60, rota.now() - interval '61 s'
        FROM generate_series(1, %(count)s) i RETURNING id
    )
    INSERT INTO rota.schedule_state (schedule_id, next_run_at, cursor_at, is_stopped, is_spread)
    SELECT id, rota.now() + %(due)s::interval, rota.now() - interval '30 s', false, true FROM made
"""
_BARE = """
    CREATE TABLE bare_schedules (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        next_run_at timestamptz, version bigint);
    CREATE INDEX bare_due ON bare_schedules (next_run_at);
    CREATE TABLE bare_ledger (
        id bigint, nominal_at timestamptz, PRIMARY KEY (id, nominal_at));
    CREATE TABLE bare_runs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run_at timestamptz);
"""
_BARE_FILL = """
    INSERT INTO bare_schedules (next_run_at, version)
    SELECT now() - interval '1 s', 1 FROM generate_series(1, %(count)s)
"""
_BARE_TICK = f"""
    WITH due AS (
        SELECT id FROM bare_schedules WHERE next_run_at <= now() ORDER BY next_run_at LIMIT {_BATCH}
        FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE bare_schedules s SET next_run_at = now() + interval '1 day', version = version + 1
        FROM due WHERE s.id = due.id RETURNING s.id
    ), enqueued AS (
        INSERT INTO bare_runs (run_at) SELECT now() FROM moved RETURNING id
    ), noted AS (
        INSERT INTO bare_ledger (id, nominal_at) SELECT id, now() FROM moved
    )
    SELECT count(*) FROM enqueued
"""

Tick = Callable[[], Coroutine[Any, Any, int]]


class Lane:
    """What a scheduler needs of a database: the statements, and one connection."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.statements = Statements("rota")
        self._conn = conn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        yield self._conn

    async def fetch_on(self, conn: psycopg.AsyncConnection[Any], query: Query[T]) -> T:
        return await driving.fetch(conn, self.statements, query)


def _ticker(system: System, conn: psycopg.AsyncConnection[Any]) -> Tick:
    if system.name == "rota":
        return Scheduler(Lane(conn), tick_seconds=1).tick  # type: ignore[arg-type]

    async def bare() -> int:
        row = await (await conn.execute(_BARE_TICK)).fetchone()
        return int(row[0]) if row else 0

    return bare


async def _tick_all(system: System, tickers: int, due: int) -> tuple[float, list[float]]:
    """Until nobody finds anything: seconds in all, and of each tick that found something."""
    took: list[float] = []

    async def work(tick: Tick) -> None:
        found = 1
        while found:
            began = time.perf_counter()
            found = await tick()
            if found:
                took.append(time.perf_counter() - began)

    url = system.server.url_of(system.database)
    async with AsyncExitStack() as stack:
        filling = stack.enter_context(system.server.connect(system.database))
        fill = partial(_fill, system, filling)
        connect = psycopg.AsyncConnection.connect
        ticks = [
            _ticker(system, await stack.enter_async_context(await connect(url, autocommit=True)))
            for _ in range(tickers)
        ]
        # As tickers are that have run for a while: the first plans of a session are dear, and
        # they are made anew after each change of the table's definition or statistics.
        for tick in ticks * _WARM_UP_TICKS:
            fill(1)
            await tick()
        fill(due)
        began = time.perf_counter()
        await asyncio.gather(*map(work, ticks))
        return time.perf_counter() - began, sorted(took)


def _prepare(system: System, later: int) -> None:
    """So many schedules that are not due."""
    with system.server.connect(system.database) as conn:
        if system.name != "rota":
            conn.execute(_BARE)
            return
        conn.execute("INSERT INTO rota.jobs (name) VALUES ('noop') ON CONFLICT DO NOTHING")
        conn.execute("UPDATE rota.schedules SET is_enabled = false WHERE is_system")
        # The checks and the audit of a hundred thousand inserts are not what is measured.
        conn.execute("ALTER TABLE rota.schedules DISABLE TRIGGER USER")
        conn.execute(_FILL, {"count": later, "due": "1 day"})
        conn.execute("ALTER TABLE rota.schedules ENABLE TRIGGER USER")
        conn.execute("VACUUM (ANALYZE) rota.schedules, rota.schedule_state")


def _fill(system: System, conn: Conn, due: int) -> None:
    if system.name == "rota":
        conn.execute("ALTER TABLE rota.schedules DISABLE TRIGGER USER")
        conn.execute(_FILL, {"count": due, "due": "-1 second"})
        conn.execute("ALTER TABLE rota.schedules ENABLE TRIGGER USER")
    else:
        conn.execute(_BARE_FILL, {"count": due})


def cases(sizes: Sizes) -> Sequence[Case]:
    due = min(1_000, sizes.runs)
    many = min(100_000, sizes.scheduled)

    def at_once(system: System) -> dict[str, float]:
        system.fresh()
        _prepare(system, 0)
        seconds, took = uvloop.run(_tick_all(system, _TICKERS, due))
        return {"runs/s": due / seconds, "p99 ms": took[int(len(took) * 0.99)] * 1000}

    def among_many(system: System) -> dict[str, float]:
        system.fresh()
        _prepare(system, many - 100)
        seconds, _ = uvloop.run(_tick_all(system, 1, 100))
        return {"p50 ms": seconds * 1000}

    def lateness(system: System) -> dict[str, float]:
        system.fresh()
        with system.workers(1), system.server.connect(system.database) as conn:
            conn.execute("UPDATE rota.schedules SET is_enabled = false")
            conn.execute(
                "INSERT INTO rota.schedules (name, job, interval_seconds, payload)"
                """ VALUES ('second', 'noop', 1, '{"n": 1}')"""
            )
            time.sleep(sizes.late_seconds + 0.5)
            rows = conn.execute(
                "SELECT lateness_ms FROM rota.occurrences WHERE schedule = 'second' AND success"
                " ORDER BY 1"
            ).fetchall()
        late = [row[0] for row in rows]
        return {"p50 ms": late[len(late) // 2], "p99 ms": late[int(len(late) * 0.99)]}

    return [
        Case(f"{due:,} due, {_TICKERS} tickers", at_once, lambda it: it.name in ("rota", "floor")),
        Case(f"100 due of {many:,}", among_many, only_rota),
        Case("lateness by the second", lateness, only_rota),
    ]


PHASE = Phase("ticks", cases)
