"""Log lines written past the workers, for tests of reading."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import psycopg

_INSERT = """
INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields)
VALUES (coalesce(%s, rota.now()) - make_interval(secs => %s), %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


def write(
    conn: psycopg.Connection[Any],
    message: str,
    age: float = 0,
    *,
    run: int = 1,
    attempt: int = 1,
    seq: int = 1,
    level: str = "info",
    job: str = "work",
    tenant: str = "",
    fields: dict[str, Any] | None = None,
    at: datetime | None = None,
    worker: int = 1,
) -> None:
    shown = None if fields is None else json.dumps(fields)
    row = [at, age, run, worker, attempt, seq, level, job, tenant, message, shown]
    conn.execute(_INSERT, row)


def make_partitions(conn: psycopg.Connection[Any], days: int) -> None:
    """For lines up to so many days old."""
    conn.execute(
        "SELECT rota.ensure_partitions(rota.now() - make_interval(days => %s), rota.now())", [days]
    )


def build_indexes(conn: psycopg.Connection[Any], least_bytes: int = 1 << 40) -> int:
    """All that upkeep would build, one after the other; answers how many."""
    built = 0
    while row := conn.execute("SELECT * FROM rota.next_log_index(%s)", [least_bytes]).fetchone():
        for statement in row:
            if statement:
                conn.execute(statement)
        built += 1
    return built
