"""One database as an old installation looks: a million waiting, others for later, a million ended.
Tests that use it are one group, so that a single runner fills it once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.sql_engine import Engine

OPEN = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, payload)
SELECT i, i, now(), now(), now() + i * interval '1 ms', 3, 5, '{state}', '{queue}', 'work',
    '{{}}'
FROM generate_series({first}, {last}) i
"""
ENDED = """
INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt,
    attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant,
    payload)
SELECT i, now(), now(), now(), now(), 1, 1, 1, 3, 5, false, 'succeeded', 'succeeded', 'default',
    'work', '', '{}'
FROM generate_series(3000001, 4000000) i
"""


def fill(conn: psycopg.Connection[Any]) -> None:
    conn.execute("SET synchronous_commit = off")
    conn.execute("SET maintenance_work_mem = '256MB'")
    Engine(conn).job("work")
    # Indexes of the history are made after it is filled: a minute less.
    indexes = conn.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indrelid = 'rota.ended_runs'::regclass AND NOT indisprimary"
    ).fetchall()
    for name, _ in indexes:
        conn.execute(f"DROP INDEX {name}".encode())
    conn.execute(ENDED.encode())
    for _, definition in indexes:
        conn.execute(definition.replace(" ON ONLY ", " ON ").encode())
    # Two halves, so that neither fills the same pages.
    for first, last, state, queue in (
        (1, 500_000, "queued", "default"),
        (500_001, 1_000_000, "queued", "mail"),
        (1_000_001, 1_300_000, "scheduled", "default"),
    ):
        conn.execute(OPEN.format(first=first, last=last, state=state, queue=queue).encode())
    conn.execute("SELECT setval('rota.run_ids', 9000000)")


@pytest.fixture(scope="package")
def large(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        fill(conn)
        yield conn
