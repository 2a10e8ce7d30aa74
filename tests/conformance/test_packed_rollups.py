"""Roll-ups of before 0025, and the release before it on the schema of after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rota.store import migrate
from rota.testing import eventually_sync

Conn = psycopg.Connection[Any]

ADD = """SELECT rota.add_rollups(for_worker => %s, jobs => %s, queues => '{q,q}',
    outcomes => '{succeeded,failed}', attempts => '{3,1}', durations_ms => '{6,500}',
    longests_ms => '{3,500}', all_buckets => %s)"""
MINUTES = "SELECT to_jsonb(r) FROM rota.rollups r ORDER BY minute, job, outcome, worker"
SPANS = "SELECT to_jsonb(r) FROM rota.rollup_sums r ORDER BY span, started_at, job, queue, outcome"
# As that release asks for them: by name, and bucket by bucket.
READ = """
    SELECT s.started_at AS at, s.job, s.outcome, s.attempts, s.buckets[11], s.buckets[12],
           s.buckets[40] FROM rota.rollup_sums s WHERE s.span <> 'ever'
    UNION ALL
    SELECT m.minute, m.job, m.outcome, m.attempts, (m.buckets::bigint[])[11],
           (m.buckets::bigint[])[12], (m.buckets::bigint[])[40]
    FROM rota.rollups m WHERE m.worker <> 0
    ORDER BY 1, 2, 3, 4
"""
STATUS = "SELECT name, avg_duration_ms, max_duration_ms FROM rota.job_status WHERE name = 'mail'"
FIRST = [0] * 10 + [1, 2] + [0] * 28
LAST = [0] * 39 + [1]


def add(conn: Conn, worker: int, *jobs: str) -> None:
    buckets = [str(one).replace("[", "{").replace("]", "}") for one in (FIRST, LAST)]
    conn.execute(ADD, [worker, list(jobs), buckets])


def set_clock(conn: Conn, at: str) -> None:
    conn.execute("SELECT rota.set_clock(%s)", [f"2026-03-01T{at}Z"])


def rows(conn: Conn, query: str) -> list[Any]:
    return conn.execute(query.encode()).fetchall()


@pytest.fixture
def old(database_url: str) -> str:
    """With minutes that are folded, and one that is not."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("DROP SCHEMA rota CASCADE")
        migrate.migrate(database_url, "rota", upto=24)
        set_clock(conn, "10:00:20")
        conn.execute("INSERT INTO rota.jobs (name) VALUES ('mail')")
        for worker in (1, 2):
            add(conn, worker, "mail", "sms")
        set_clock(conn, "10:10:20")
        conn.execute("SELECT rota.fold_rollups(10)")
        add(conn, 1, "mail", "sms")
    return database_url


def test_nothing_changes_for_whoever_reads_arrays(old: str) -> None:
    queries = MINUTES, SPANS, READ, STATUS
    with psycopg.connect(old, autocommit=True) as conn:
        before = [rows(conn, query) for query in queries]
        assert [len(found) for found in before[:2]] == [4, 3 * 6 + 4]
        assert before[3] == [("mail", 2.0, 3.0)]
        migrate.migrate(old, "rota")
        assert [rows(conn, query) for query in queries] == before


def test_whoever_writes_arrays_goes_on(old: str) -> None:
    migrate.migrate(old, "rota")
    with psycopg.connect(old, autocommit=True) as conn:
        add(conn, 1, "mail", "sms")
        set_clock(conn, "10:20:20")
        while conn.execute("SELECT rota.fold_rollups(10)").fetchone() != (0,):
            pass
        (found,) = conn.execute(
            "SELECT buckets FROM rota.rollup_sums WHERE span = 'ever' AND job = 'mail'"
        ).fetchone() or (None,)
        assert found == [4 * count for count in FIRST]


OTHERS: dict[str, Callable[[Conn], object]] = {
    "a fold": lambda conn: rows(conn, "SELECT rota.fold_rollups(10)"),
    "a reader of the view": lambda conn: rows(conn, STATUS),
    "a reader of the tables": lambda conn: rows(conn, READ),
    "another writer": lambda conn: add(conn, 6, "mail", "sms"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_a_migration_that_waits_is_in_nobodys_way(
    old: str, conn: Conn, other: Callable[[Conn], object]
) -> None:
    """Behind a writer that holds the table; then somebody else comes."""
    errors: list[BaseException] = []

    def started(work: Callable[[], object]) -> threading.Thread:
        def go() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=go)
        thread.start()
        return thread

    def meanwhile() -> None:
        with psycopg.connect(old, autocommit=True, application_name="other") as theirs:
            other(theirs)

    def is_waiting(name: str) -> bool:
        found = conn.execute(
            "SELECT wait_event_type = 'Lock' FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = %s",
            [name],
        ).fetchone()
        return found == (True,)

    with psycopg.connect(old) as writer:
        add(writer, 5, "mail", "sms")
        migration = started(lambda: migrate.migrate(old, "rota"))
        eventually_sync(lambda: is_waiting("rota migrate"))
        threads = [migration, started(meanwhile)]
        eventually_sync(lambda: not threads[1].is_alive() or is_waiting("other"))
        writer.commit()
    for thread in threads:
        thread.join()
    assert errors == []
    (count,) = conn.execute("SELECT count(*) FROM rota.rollups WHERE worker = 5").fetchone() or ()
    assert count == 2
