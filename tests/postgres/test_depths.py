"""Counts of queues and workers that do not cost more because more waits."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from tests.sql_engine import Engine

MANY = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, payload)
SELECT i, i, now(), now(), now(), 3, 5, 'queued', 'bulk', 'work', '{}'
FROM generate_series(%s::int, %s::int) i
"""


@pytest.fixture
def engine(app: rota.App, conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    conn.execute("SELECT setval('rota.run_ids', 1000000)")
    return engine


async def test_few_are_counted_at_every_look(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(MANY, [1, 3])
    assert (await app.queues.get("bulk")).queue.queued == 3
    engine.conn.execute(MANY, [4, 5])
    (bulk,) = (it for it in await app.queues.list() if it.name == "bulk")
    assert bulk.queued == 5
    assert bulk.counted_seconds < 20


async def test_many_are_counted_now_and_then(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(MANY, [1, 21_000])
    assert (await app.queues.get("bulk")).queue.queued == 21_000
    engine.conn.execute("UPDATE rota.count_marks SET took_ms = 200000")
    engine.conn.execute(MANY, [21_001, 21_100])
    found = await app.queues.get("bulk")
    assert found.queue.queued == 21_000  # kept: it was counted a moment ago
    assert found.jobs[0].queued == 21_000


@pytest.mark.parametrize(
    ("counted", "is_counted"),
    [("- 200 s", False), ("- 400 s", True), ("+ 30 s", False), ("+ 1 hour", True)],
    ids=["lately", "long ago", "while others did", "before the clock was set back"],
)
def test_one_that_took_an_hour_is_no_reason_to_wait_for_a_day(
    engine: Engine, counted: str, is_counted: bool
) -> None:
    sign, interval = counted.split(" ", 1)
    engine.conn.execute(
        f"UPDATE rota.count_marks SET took_ms = 3600000,"
        f" counted_at = clock_timestamp() {sign} interval '{interval}'".encode()
    )
    assert engine.one("SELECT rota.count_depths(2)") is is_counted


async def test_what_runs_among_many_is_found_at_the_front(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(MANY, [1, 21_000])
    worker = engine.worker()
    claimed = engine.claim(worker, 3, ["bulk"])
    assert (await app.queues.get("bulk")).queue.running == 3
    assert (await app.workers.get(worker)).running == 3
    seen = await app.overview.get(limit=2)
    assert [run.id for run in seen.running] == [row["id"] for row in claimed[:2]]
    assert seen.queues[0].queue.queued == 20_997


def test_looking_at_what_runs_reads_no_million(engine: Engine) -> None:
    """By the blocks it touches: every open run would be thousands."""
    engine.conn.execute(MANY, [1, 60_000])
    engine.conn.execute("ANALYZE rota.open_runs")
    engine.claim(engine.worker(), 3, ["bulk"])
    engine.conn.execute("SELECT rota.count_depths(0)")
    engine.one("SELECT count(*) FROM rota.running_runs()")
    (plan,) = engine.one(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM rota.running_runs()"
    )
    pages = engine.one("SELECT pg_relation_size('rota.open_runs') / 8192")
    # The check for many reads a third of the table here; what follows is a few pages.
    assert plan["Plan"]["Shared Hit Blocks"] < pages * 0.5
