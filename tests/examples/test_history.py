"""The history of the demo: made once, consistent, and where nothing has run yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

PREPARE = Path(__file__).parents[2] / "examples" / "shop" / "prepare.py"
Conn = psycopg.Connection[Any]


def prepare(database_url: str) -> str:
    env = os.environ | {"ROTA_DATABASE_URL": database_url, "ROTA_SERVER_PORT": "7899"}
    done = subprocess.run(
        [sys.executable, PREPARE], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def one(conn: Conn, query: str) -> Any:
    found = conn.execute(query).fetchone()
    assert found is not None
    return found[0]


@pytest.mark.slow
def test_a_history_is_made_once_and_agrees_with_itself(database_url: str, conn: Conn) -> None:
    said = prepare(database_url)
    assert said.splitlines()[0] == "dashboard: http://127.0.0.1:7899 (in a few seconds)"
    ended = one(conn, "SELECT count(*) FROM rota.ended_runs")
    assert ended > 5000

    attempts = ended + one(conn, "SELECT count(*) FROM rota.past_attempts")
    ever = """SELECT sum(attempts) FROM rota.rollup_spans
        WHERE span = 'ever' AND job = '' AND queue = ''"""
    assert one(conn, ever) == attempts
    assert one(conn, "SELECT sum(attempts) FROM rota.rollup_minutes") == attempts
    future = (
        "SELECT count(*) FROM rota.runs WHERE finished_at > rota.now() OR started_at < created_at"
    )
    assert one(conn, future) == 0
    in_order = """SELECT bool_and(created_at >= before) FROM (
        SELECT created_at, lag(created_at) OVER (ORDER BY id) AS before FROM rota.ended_runs) r"""
    assert one(conn, in_order) is True
    strays = """SELECT count(*) FROM rota.ledger l WHERE run_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM rota.ended_runs r WHERE r.id = l.run_id AND r.schedule_id = l.schedule_id)"""
    assert one(conn, strays) == 0
    assert one(conn, "SELECT min(level) || max(level) FROM rota.logs") == "criticalwarning"
    assert one(conn, "SELECT count(DISTINCT tenant) FROM rota.ended_runs WHERE tenant <> ''") == 2
    remembered = """SELECT run_count > 100 AND last_run_at IS NOT NULL FROM rota.schedule_state
        WHERE schedule_id = (SELECT id FROM rota.schedules WHERE name = 'price-list')"""
    assert one(conn, remembered) is True
    assert one(conn, "SELECT bool_or(is_paused) FROM rota.queues") is True

    assert "already open" in prepare(database_url)
    assert one(conn, "SELECT count(*) FROM rota.ended_runs") == ended


def test_what_has_run_before_gets_no_history(database_url: str, conn: Conn) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('of_somebody')")
    conn.execute("SELECT rota.enqueue('of_somebody')")
    prepare(database_url)
    assert one(conn, "SELECT count(*) FROM rota.ended_runs") == 0
    assert one(conn, "SELECT count(*) FROM rota.runs WHERE job = 'open_shop'") == 1
