"""What the pages say about limits and housekeeping is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture(autouse=True)
def job(conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('send')")


def test_a_key_race_under_repeatable_read_is_a_serialization_failure(
    conn: psycopg.Connection[Any], connect: Connect
) -> None:
    caller = connect(autocommit=False)
    caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    caller.execute("SELECT count(*) FROM rota.jobs")
    conn.execute("SELECT rota.enqueue('send', key => 'a')")
    with pytest.raises(psycopg.errors.SerializationFailure):
        caller.execute("SELECT rota.enqueue('send', key => 'a')")


@pytest.mark.commits
def test_old_partitions_can_be_removed_as_the_guide_says(
    conn: psycopg.Connection[Any],
) -> None:
    query = """
        SELECT child.relname FROM pg_inherits
        JOIN pg_class child ON child.oid = inhrelid
        WHERE inhparent = %s::regclass AND child.relkind = 'r' ORDER BY 1
    """
    for parent in ("ended_runs_standard", "logs"):
        ((oldest,), *_) = conn.execute(query, [f"rota.{parent}"]).fetchall()
        names = [sql.Identifier("rota", name) for name in (parent, oldest)]
        detach = "ALTER TABLE {} DETACH PARTITION {} CONCURRENTLY"
        conn.execute(sql.SQL(detach).format(*names))
        conn.execute(sql.SQL("DROP TABLE {}").format(names[1]))
