"""A database that was dumped and restored elsewhere works on, watches of tables too: the server's
numbers of tables are others then."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.distribution import Distribution, find_distribution

pytestmark = pytest.mark.distribution
Connection = psycopg.Connection[tuple[Any, ...]]


def call(program: str, url: str, *arguments: str) -> None:
    place = find_distribution()
    if place is None or not (place / program).exists():
        pytest.skip(f"there is no {program} of this machine's packages")
    done = subprocess.run(
        [place / program, "--dbname", url, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def restored(
    database_url: str, distribution_server: Distribution, tmp_path: Path
) -> Iterator[psycopg.Connection[Any]]:
    """A copy of a database in which two tables are watched, one of them partitioned."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
        conn.execute("CREATE TABLE days (day int) PARTITION BY RANGE (day)")
        conn.execute("CREATE TABLE days_one PARTITION OF days FOR VALUES FROM (0) TO (100)")
        conn.execute("SELECT rota.watch_table('orders', '{insert}')")
        conn.execute("SELECT rota.watch_table('days', '{insert}', condition => 'new.day > 10')")
    dump = tmp_path / "dump"
    call("pg_dump", database_url, "--format=custom", f"--file={dump}")
    with distribution_server.fresh_database("template0") as url:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("CREATE TABLE padding (n int)")  # so that numbers differ
            conn.execute("DROP TABLE padding")
        # What the superuser of a server has made is not the role's to make again.
        call("pg_restore", url, "--no-comments", str(dump))
        assert conninfo_to_dict(url)["dbname"] != conninfo_to_dict(database_url)["dbname"]
        with psycopg.connect(url, autocommit=True) as conn:
            yield conn


def told(conn: Connection) -> list[str]:
    return [row[0] for row in conn.execute("SELECT name FROM rota.events ORDER BY id").fetchall()]


def watches(conn: Connection) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT id, table_name, drift FROM rota.watches()").fetchall()


def test_watches_are_as_they_were(restored: Connection) -> None:
    assert watches(restored) == [(1, "public.orders", []), (2, "public.days", [])]
    restored.execute("INSERT INTO orders VALUES (1, 5)")
    restored.execute("INSERT INTO days VALUES (1), (20)")
    assert told(restored) == ["orders.insert", "days.insert"]


def test_watching_again_is_the_same_watch(restored: Connection) -> None:
    again = restored.execute("SELECT rota.watch_table('orders', '{insert}')").fetchone()
    assert again == (1,)
    restored.execute("INSERT INTO orders VALUES (1, 5)")
    assert told(restored) == ["orders.insert"]


def test_unwatching_takes_the_trigger_away(restored: Connection) -> None:
    restored.execute("SELECT rota.unwatch_table('orders'), rota.unwatch_table('days')")
    left = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'rota\\_watch%'"
    assert (restored.execute(left).fetchone(), watches(restored)) == ((0,), [])
    restored.execute("INSERT INTO orders VALUES (1, 5)")
    assert told(restored) == []


def test_a_table_of_another_name_is_found_by_its_trigger(restored: Connection) -> None:
    restored.execute("ALTER TABLE orders RENAME TO bills")
    restored.execute("CREATE TABLE orders (id int)")
    assert watches(restored)[0][2] == ["the table was renamed to public.bills"]
    restored.execute("SELECT rota.unwatch_table(watch => 1)")
    restored.execute("INSERT INTO bills VALUES (1, 5)")
    assert told(restored) == []
