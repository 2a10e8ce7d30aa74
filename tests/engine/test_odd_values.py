"""An odd row of before ends, and with it whatever else a worker has."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually, run_due


@pytest.mark.parametrize("seconds", ["NaN", "1e300"])
async def test_a_worker_ends_a_run_whose_key_has_no_end(
    app: rota.App, conn: psycopg.Connection[Any], seconds: str
) -> None:
    @app.job
    async def ok() -> None: ...

    runs = [(await app.runs.enqueue("ok", key=f"k{n}", key_keep=60)).id for n in range(3)]
    conn.execute("ALTER TABLE rota.open_runs DROP CONSTRAINT open_runs_sound")
    conn.execute("UPDATE rota.open_runs SET key_seconds = %s WHERE id = %s", [seconds, runs[1]])
    await run_due(app)
    assert {run.state for run in await app.runs.list()} == {"succeeded"}


@pytest.mark.parametrize("at", ["infinity", "-infinity"])
async def test_a_worker_runs_what_waits_since_no_instant(
    app: rota.App, conn: psycopg.Connection[Any], at: str
) -> None:
    @app.job
    async def ok() -> None: ...

    runs = [(await app.runs.enqueue("ok")).id for _ in range(2)]
    conn.execute("ALTER TABLE rota.open_runs DROP CONSTRAINT open_runs_sound")
    conn.execute(
        "UPDATE rota.open_runs SET enqueued_at = %(at)s, created_at = %(at)s, run_at = %(at)s "
        "WHERE id = %(id)s",
        {"at": at, "id": runs[0]},
    )
    async with app.worker():
        await eventually(lambda: _ended(conn) == 2)


def _ended(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute("SELECT count(*) FROM rota.ended_runs WHERE state = 'succeeded'").fetchone()
    return int(row[0]) if row else 0


async def test_a_backoff_that_is_no_number_of_seconds_keeps_no_run_from_its_retry(
    app: rota.App, conn: psycopg.Connection[Any]
) -> None:
    answers = iter([float("inf"), float("nan"), 1e300])

    @app.job(max_attempts=2, backoff=lambda _: next(answers))
    async def fail() -> None:
        raise ValueError("no")

    for _ in range(3):
        await app.runs.enqueue("fail")
    async with app.worker():
        await eventually(lambda: _tried(conn) == 3)


def _tried(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute("SELECT count(*) FROM rota.past_attempts WHERE state = 'failed'").fetchone()
    return int(row[0]) if row else 0
