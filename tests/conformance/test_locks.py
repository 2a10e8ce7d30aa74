"""What one worker at a time does: by rows of the schema, which strangers cannot lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from rota.postgres import migrate
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]

ONE_AT_A_TIME = [
    "admission",
    "caps",
    "counts", "definitions", "depths", "errors", "fleet", "hold_due", "isolation",
    "partitions", "requirements", "rescue", "rollups", "samples", "tenants",
]  # fmt: skip


@pytest.fixture
def stranger(conn: Connection, connect: Connect) -> Iterator[Connection]:
    """May connect, and nothing else."""
    role = f"stranger_{conn.info.backend_pid}"  # roles are the server's, and tests run side by side
    conn.execute(f"CREATE ROLE {role} LOGIN")
    other = connect()
    other.execute(f"SET ROLE {role}")
    yield other
    other.close()
    conn.execute(f"DROP ROLE {role}")


def test_every_lock_has_its_row(conn: Connection) -> None:
    rows = conn.execute("SELECT name FROM rota.locks ORDER BY name").fetchall()
    assert [name for (name,) in rows] == ONE_AT_A_TIME
    taken = conn.execute(
        "SELECT DISTINCT (regexp_matches(prosrc, '(?:try|take)_lock\\(''(\\w+)''', 'g'))[1]"
        " FROM pg_proc WHERE pronamespace = 'rota'::regnamespace ORDER BY 1"
    ).fetchall()
    assert [name for (name,) in taken] == ONE_AT_A_TIME


def test_a_stranger_can_take_none(stranger: Connection) -> None:
    for statement in (
        "SELECT FROM rota.locks FOR UPDATE",
        "SELECT FROM rota.locks FOR KEY SHARE",
        "LOCK TABLE rota.locks IN ACCESS SHARE MODE",
        "LOCK TABLE rota.pruning_runs",
        "LOCK TABLE rota.migrations",
    ):
        with pytest.raises(errors.InsufficientPrivilege), stranger.transaction():
            stranger.execute(statement)


def test_locks_by_the_names_of_before_stop_nobody(
    stranger: Connection, engine: Engine, database_url: str
) -> None:
    for name in [*ONE_AT_A_TIME, "prune_runs", "prune_logs", "migrate rota", "migrate"]:
        stranger.execute("SELECT pg_advisory_lock(hashtextextended('rota.' || %s, 0))", [name])
    engine.one("SELECT rota.hold_due(10, 5)")
    engine.one("SELECT rota.ensure_partitions(rota.now(), rota.now())")
    engine.one("SELECT rota.register_jobs('a', 'b', '[]', NULL, '{}')")
    engine.count_depths()
    assert engine.one(
        "SELECT counted_at > '2001-01-01' FROM rota.count_marks WHERE name = 'depths'"
    )
    assert migrate.migrate(database_url, "rota") == []


def test_who_waits_says_for_whom_and_not_for_ever(conn: Connection, connect: Connect) -> None:
    holder = connect(autocommit=False)
    holder.execute("SELECT FROM rota.locks WHERE name = 'fleet' FOR UPDATE")
    with pytest.raises(errors.LockNotAvailable) as raised:
        conn.execute("SELECT rota.take_lock('fleet', 50)")
    told = str(raised.value)
    assert f"pid {holder.info.backend_pid} since 2" in told
    assert "WHERE name = 'fleet' FOR UPDATE" in told
    assert conn.execute("SELECT rota.try_lock('fleet')").fetchone() == (False,)
    holder.rollback()
    assert conn.execute("SELECT rota.try_lock('fleet')").fetchone() == (True,)
