"""Counts per minute: written by each worker, folded later, never lost by a failed write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rota.app import App
from rota.engine.metrics.rollups import Rollups
from rota.model.histogram import unpack
from rota.testing import Clock

Conn = psycopg.Connection[Any]
_ROWS = (
    "SELECT job, outcome, worker, attempts, numeric_send(histogram) FROM rota.rollup_minutes"
    " ORDER BY job, outcome, worker"
)


def counting(app: App, worker: int) -> Rollups:
    rollups = Rollups(app.database)
    rollups.worker = worker
    return rollups


async def test_ends_of_a_second_become_one_row_an_outcome(app: App, conn: Conn) -> None:
    rollups = counting(app, 7)
    for _ in range(3):
        rollups.count("mail", "default", "succeeded", 2.0)
    rollups.count("mail", "default", "failed", 0.5)
    await rollups.run_once()

    rows = conn.execute(_ROWS).fetchall()
    assert [row[:4] for row in rows] == [("mail", "failed", 7, 1), ("mail", "succeeded", 7, 3)]
    # 2 ms is less than 2^11 microseconds.
    assert unpack(rows[1][4])[11] == 3


async def test_writes_of_one_minute_add_up(app: App, conn: Conn) -> None:
    rollups = counting(app, 7)
    for duration in (1.0, 5.0):
        rollups.count("mail", "default", "succeeded", duration)
        await rollups.run_once()

    row = conn.execute(
        "SELECT attempts, duration_ms, longest_ms FROM rota.rollup_minutes"
    ).fetchone()
    assert row == (2, 6.0, 5.0)


async def test_closed_minutes_of_all_workers_fold_into_one_row(
    app: App, conn: Conn, clock: Clock
) -> None:
    for worker in (1, 2, 3):
        rollups = counting(app, worker)
        rollups.count("mail", "default", "succeeded", 1.0)
        await rollups.run_once()
    assert conn.execute("SELECT rota.fold_rollups(10)").fetchone() == (0,)

    clock.advance(300)
    assert conn.execute("SELECT rota.fold_rollups(10)").fetchone() == (1,)
    rows = conn.execute(_ROWS).fetchall()
    assert [row[:4] for row in rows] == [("mail", "succeeded", 0, 3)]
    assert sum(unpack(rows[0][4])) == 3


async def test_a_minute_is_closed_when_its_last_write_can_be_in(
    app: App, conn: Conn, clock: Clock
) -> None:
    start = datetime(2026, 3, 1, 10, 0, 30, tzinfo=UTC)
    clock.set(start)
    rollups = counting(app, 7)
    rollups.count("mail", "default", "succeeded", 1.0)
    await rollups.run_once()
    for seconds, folded in ((32, 0), (36, 1)):
        clock.set(start + timedelta(seconds=seconds))
        assert conn.execute("SELECT rota.fold_rollups(10)").fetchone() == (folded,)


async def test_the_first_minute_is_the_earliest_that_was_folded(
    app: App, conn: Conn, clock: Clock
) -> None:
    start = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
    rollups = counting(app, 7)
    for minutes in (5, 0):
        clock.set(start + timedelta(minutes=minutes))
        rollups.count("mail", "default", "succeeded", 1.0)
        await rollups.run_once()
        clock.set(start + timedelta(minutes=10))
        conn.execute("SELECT rota.fold_rollups(10)")
    first = "SELECT first_at FROM rota.rollup_spans WHERE span = 'ever' AND job = 'mail'"
    assert conn.execute(first).fetchone() == (start,)


async def test_a_late_write_is_folded_too(app: App, conn: Conn, clock: Clock) -> None:
    start = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
    rollups = counting(app, 7)
    for _ in range(2):
        clock.set(start)
        rollups.count("mail", "default", "succeeded", 1.0)
        await rollups.run_once()
        clock.set(start + timedelta(minutes=2))
        assert conn.execute("SELECT rota.fold_rollups(10)").fetchone() == (1,)
    every = conn.execute(
        "SELECT DISTINCT attempts, numeric_send(histogram) FROM rota.rollup_spans"
        " UNION SELECT attempts, numeric_send(histogram) FROM rota.rollup_minutes"
    ).fetchall()
    assert [(attempts, sum(unpack(number))) for attempts, number in every] == [(2, 2)]


async def test_a_failed_write_keeps_its_counts(app: App, conn: Conn) -> None:
    rollups = counting(app, 7)
    rollups.count("mail", "default", "succeeded", 1.0)
    conn.execute("ALTER TABLE rota.rollup_minutes RENAME TO hidden")
    with pytest.raises(psycopg.Error):
        await rollups.run_once()
    rollups.count("mail", "default", "succeeded", 3.0)
    conn.execute("ALTER TABLE rota.hidden RENAME TO rollup_minutes")
    await rollups.run_once()

    row = conn.execute("SELECT attempts, longest_ms FROM rota.rollup_minutes").fetchone()
    assert row == (2, 3.0)
