"""Roll-ups of before 0025, and the release before it on the schema of after."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rota.store import migrate

Conn = psycopg.Connection[Any]

ADD = """SELECT rota.add_rollups(for_worker => %s, jobs => %s, queues => '{q,q}',
    outcomes => '{succeeded,failed}', attempts => '{3,1}', durations_ms => '{6,500}',
    longests_ms => '{3,500}', all_buckets => %s)"""
MINUTES = "SELECT to_jsonb(r) FROM rota.rollups r ORDER BY minute, job, outcome, worker"
SPANS = "SELECT to_jsonb(r) FROM rota.rollup_sums r ORDER BY span, started_at, job, queue, outcome"
FIRST = [0] * 10 + [1, 2] + [0] * 28
LAST = [0] * 39 + [1]


def add(conn: Conn, worker: int, *jobs: str) -> None:
    buckets = [str(one).replace("[", "{").replace("]", "}") for one in (FIRST, LAST)]
    conn.execute(ADD, [worker, list(jobs), buckets])


def rows(conn: Conn, query: str) -> list[Any]:
    return conn.execute(query.encode()).fetchall()


@pytest.fixture
def old(database_url: str) -> str:
    """With minutes that are folded, and one that is not."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("DROP SCHEMA rota CASCADE")
        migrate.migrate(database_url, "rota", upto=24)
        for worker in (1, 2):
            add(conn, worker, "mail", "sms")
        conn.execute("UPDATE rota.settings SET clock_offset = interval '10 minutes'")
        conn.execute("SELECT rota.fold_rollups(10)")
        add(conn, 1, "mail", "sms")
    return database_url


def test_nothing_changes_for_whoever_reads_arrays(old: str) -> None:
    with psycopg.connect(old, autocommit=True) as conn:
        before = rows(conn, MINUTES), rows(conn, SPANS)
        assert len(before[0]) == 4
        assert len(before[1]) == 3 * 6 + 4
        migrate.migrate(old, "rota")
        assert (rows(conn, MINUTES), rows(conn, SPANS)) == before


def test_whoever_writes_arrays_goes_on(old: str) -> None:
    migrate.migrate(old, "rota")
    with psycopg.connect(old, autocommit=True) as conn:
        add(conn, 1, "mail", "sms")
        conn.execute("UPDATE rota.settings SET clock_offset = interval '20 minutes'")
        while conn.execute("SELECT rota.fold_rollups(10)").fetchone() != (0,):
            pass
        (found,) = conn.execute(
            "SELECT buckets FROM rota.rollup_sums WHERE span = 'ever' AND job = 'mail'"
        ).fetchone() or (None,)
        assert found == [4 * count for count in FIRST]


def test_a_worker_that_writes_meanwhile_waits_or_writes_again(old: str) -> None:
    """Who holds the table makes the migration try again, and loses nothing."""
    with psycopg.connect(old) as conn:
        add(conn, 5, "late", "later")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            _apply_at_once(old)
        conn.commit()
    migrate.migrate(old, "rota")
    with psycopg.connect(old) as conn:
        assert len(rows(conn, MINUTES)) == 6


def _apply_at_once(url: str) -> None:
    text = migrate.known()[24].text
    with psycopg.connect(url) as conn:
        conn.execute("SET lock_timeout = '50ms'")
        conn.execute(text.encode())
