"""No job and no schedule may have a timeout that no attempt can keep, whoever writes it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from tests.sql_engine import Engine


@pytest.mark.parametrize("seconds", [1e-30, 0.0009, 0, -1])
def test_a_job_by_plain_sql(conn: psycopg.Connection[Any], seconds: float) -> None:
    with pytest.raises(psycopg.Error, match="is less than"):
        conn.execute("INSERT INTO rota.jobs (name, timeout_seconds) VALUES ('work', %s)", [seconds])
    conn.execute("INSERT INTO rota.jobs (name, timeout_seconds) VALUES ('work', 0.001)")
    with pytest.raises(psycopg.Error, match="is less than"):
        conn.execute("UPDATE rota.jobs SET timeout_seconds = %s", [seconds])


@pytest.mark.parametrize("seconds", [1e-30, 0.0009])
def test_a_schedule_by_plain_sql(conn: psycopg.Connection[Any], seconds: float) -> None:
    Engine(conn).job("work")
    add = "INSERT INTO rota.schedules (name, job, interval_seconds, timeout_seconds)"
    with pytest.raises(psycopg.Error, match="is less than"):
        conn.execute(f"{add} VALUES ('s', 'work', 60, %s)".encode(), [seconds])
    conn.execute(f"{add} VALUES ('s', 'work', 60, 0.001)".encode())
    with pytest.raises(psycopg.Error, match="is less than"):
        conn.execute("UPDATE rota.schedules SET timeout_seconds = %s", [seconds])


async def test_a_schedule_by_python(make_app: Any) -> None:
    app = make_app()

    @app.job
    async def work() -> None: ...

    with pytest.raises(rota.TimingError, match="timeout must be from"):
        await app.schedules.create("s", "work", every=60, timeout=1e-30)
