"""Migrations, other schema names, and the columns that people rely on."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rota
from rota.postgres import migrate
from rota.testing import eventually_sync, run_due
from tests.conftest import MakeApp
from tests.database import Server
from tests.schema.catalogue import differences, read


@pytest.fixture
def empty_url(server: Server, database_url: str) -> str:
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("DROP SCHEMA rota CASCADE")
    return database_url


def test_one_by_one_or_all_at_once(server: Server, empty_url: str) -> None:
    for one in migrate.known():
        assert migrate.migrate(empty_url, "rota", upto=one.number) == [one]
    assert migrate.migrate(empty_url, "rota") == []
    with server.fresh_database("template1") as fresh:
        migrate.migrate(fresh, "rota")
        assert differences(read(empty_url), read(fresh)) == []


def test_every_migration_leaves_a_mark(database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        rows = conn.execute("SELECT number, name FROM rota.migrations ORDER BY number").fetchall()
    assert rows == [(one.number, one.name) for one in migrate.known()]
    assert [one.number for one in migrate.known()] == list(range(1, len(migrate.known()) + 1))


def test_any_number_of_processes_may_migrate_at_once(empty_url: str) -> None:
    applied: list[migrate.Migration] = []
    errors: list[Exception] = []

    def go() -> None:
        try:
            applied.extend(migrate.migrate(empty_url, "rota"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=go) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(applied, key=lambda one: one.number) == list(migrate.known())


def test_a_migration_that_fails_leaves_nothing(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = migrate.Migration(2, "bad", "CREATE TABLE rota.half (a int); SELECT 1 / 0;")
    monkeypatch.setattr(migrate, "known", lambda: (first, bad))
    first = migrate.Migration(1, "first", "CREATE TABLE rota.whole (a int);")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate.migrate(empty_url, "rota")
    with psycopg.connect(empty_url, autocommit=True) as conn:
        assert migrate.installed(conn, "rota") == migrate.Installed(1, 0)
        assert conn.execute("SELECT to_regclass('rota.half')").fetchone() == (None,)


OTHERS = {
    "a reader": "SELECT count(*) FROM rota.jobs",
    "a writer": "UPDATE rota.jobs SET description = 'changed' WHERE name = 'mail'",
    "an enqueue": "SELECT rota.enqueue('mail')",
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_migration_that_waits_is_in_nobodys_way(
    conn: psycopg.Connection[Any], database_url: str, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """It waits for a table that somebody holds, in short tries; whoever comes behind it gets on
    before it does."""
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('mail')")
    change = "ALTER TABLE rota.jobs ADD COLUMN extra text;"
    more = (*migrate.known(), migrate.Migration(migrate.latest() + 1, "more", change))
    monkeypatch.setattr(migrate, "known", lambda: more)
    with psycopg.connect(database_url) as holder, ThreadPoolExecutor() as threads:
        holder.execute("LOCK TABLE rota.jobs IN ACCESS SHARE MODE")
        migration = threads.submit(migrate.migrate, database_url, "rota")
        eventually_sync(lambda: is_waiting(conn, "rota migrate"))
        with psycopg.connect(database_url, autocommit=True) as theirs:
            theirs.execute(OTHERS[other].encode())
        assert not migration.done()
        holder.rollback()
        assert migration.result() == [more[-1]]


def is_waiting(conn: psycopg.Connection[Any], name: str) -> bool:
    found = conn.execute(
        "SELECT wait_event_type = 'Lock' FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = %s",
        [name],
    ).fetchone()
    return found == (True,)


def test_start_up_refuses_a_database_without_rota(empty_url: str, make_app: MakeApp) -> None:
    with pytest.raises(rota.SchemaError, match="not installed") as caught:
        _ = make_app().database.url
    assert caught.value.hint == "run `rota --app tests.conftest migrate`"


def test_start_up_refuses_an_older_schema(empty_url: str, make_app: MakeApp) -> None:
    migrate.migrate(empty_url, "rota", upto=migrate.latest() - 1)
    with pytest.raises(rota.SchemaError, match=f"needs {migrate.latest()}") as caught:
        _ = make_app().database.url
    assert caught.value.hint == "run `rota --app tests.conftest migrate`"


def test_start_up_refuses_a_schema_that_no_longer_serves_it(
    conn: psycopg.Connection[Any], make_app: MakeApp
) -> None:
    newer = migrate.latest() + 1
    conn.execute("INSERT INTO rota.migrations VALUES (%s, 'future', %s)", [newer, newer])
    with pytest.raises(rota.SchemaError, match=f"releases from migration {newer}") as caught:
        _ = make_app().database.url
    assert caught.value.hint == "upgrade Rota in this environment"


def test_a_newer_schema_that_only_adds_is_fine(
    conn: psycopg.Connection[Any], make_app: MakeApp
) -> None:
    conn.execute("INSERT INTO rota.migrations VALUES (%s, 'future', 0)", [migrate.latest() + 1])
    assert make_app().database.url


RUNS = """id job queue state priority payload run_at attempt max_attempts key tenant tags metadata
schedule scheduled_for triggered_by worker last_error message result created_at started_at
finished_at duration_ms expires_at end_reason"""
ATTEMPTS = """run_id attempt state worker started_at finished_at duration_ms message details
error_type error traceback is_redelivery"""


@pytest.mark.parametrize(("view", "columns"), [("runs", RUNS), ("attempts", ATTEMPTS)])
def test_the_views_show_what_was_promised(
    conn: psycopg.Connection[Any], view: str, columns: str
) -> None:
    cursor = conn.execute(f"SELECT * FROM rota.{view}".encode())
    shown = [column.name for column in cursor.description or ()]
    promised = columns.split()
    assert shown[: len(promised)] == promised


async def test_the_engine_lives_under_another_name(empty_url: str, make_app: MakeApp) -> None:
    """Claims, retries, promotion, keys, cancel, retry, logs, upkeep: all that has SQL."""
    app = make_app(schema="jobs_x")
    app.migrate()
    tries: list[int] = []

    @app.job(max_attempts=2, backoff={"kind": "fixed", "base": 0, "jitter": 0})
    async def work(ctx: rota.Context, n: int) -> int:
        ctx.log.info("at work", n=n)
        ctx.progress(0.5, "half")
        tries.append(ctx.attempt)
        async with ctx.transaction() as conn:
            await conn.execute("SELECT 1")
        if ctx.attempt == 1:
            raise ValueError("once more")
        return n + 1

    run = await work.options(key="a").enqueue(n=1)
    assert (await work.options(key="a").enqueue(n=2)).is_duplicate
    waiting = await work.options(delay=3600).enqueue(n=3)
    await app.enqueue_many([work.call(n=4), work.options(key="b").call(n=5)])
    await run_due(app)
    assert await run.wait(1) == 2
    assert await waiting.cancel("no") == "cancelled"
    await waiting.retry()
    await run_due(app)
    assert await waiting.wait(1) == 4
    with psycopg.connect(empty_url) as conn:
        names = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname = 'rota'").fetchall()
        assert names == []
        logged = conn.execute("SELECT count(*) FROM jobs_x.logs").fetchone()
        # A line of each attempt, and that of its failure.
        assert logged == (len(tries) + tries.count(1),)


def test_two_installations_in_one_database(server: Server) -> None:
    """The same, but for the name of the schema."""
    with server.fresh_database("template1") as url:
        for schema in ("rota", "jobs_x"):
            migrate.migrate(url, schema)
        theirs = {named(key): named(text) for key, text in read(url, "jobs_x").items()}
        assert differences(theirs, read(url)) == []


def named(text: str) -> str:
    return re.sub(r'"jobs_x"|\bjobs_x\b', "rota", text)


OLD_CHAIN = "UPDATE rota.migrations SET name = 'foundation' WHERE number = 1"


def test_a_schema_of_before_the_first_release_is_refused(
    conn: psycopg.Connection[Any], database_url: str, make_app: MakeApp
) -> None:
    """Its hundred numbers are higher than ours: without a word it would pass for a newer schema."""
    conn.execute(OLD_CHAIN)
    conn.execute("INSERT INTO rota.migrations VALUES (96, 'passing_on', 0)")
    app = make_app()
    for use in (
        lambda: migrate.migrate(database_url, "rota"),
        app.migrate,
        app.pending_migrations,
        lambda: app.database.url,
    ):
        with pytest.raises(
            rota.SchemaError, match=r"created by a version before 0\.1\.0"
        ) as caught:
            use()
        assert 'DROP SCHEMA "rota" CASCADE' in str(caught.value.hint)
        assert "migrate`" in str(caught.value.hint)


def test_the_url_may_name_the_database_in_words(database_url: str) -> None:
    assert migrate.migrate(make_conninfo(database_url), "rota") == []


def test_no_lock_can_be_taken_by_who_may_only_connect(conn: psycopg.Connection[Any]) -> None:
    """Advisory locks belong to everybody; those of the schema are its own rows and relations."""
    found = conn.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p"
        " WHERE p.pronamespace = 'rota'::regnamespace AND p.prosrc ~ 'advisory'"
    ).fetchall()
    assert found == []
    package = Path(rota.__file__).parent
    texts = [*package.rglob("*.py"), *package.glob("postgres/sql/**/*.sql")]
    taken = re.compile(r"pg_(try_)?advisory_(xact_)?lock")
    assert not [path for path in texts if taken.search(path.read_text(encoding="utf-8"))]


def test_whatever_ends_runs_tells_who_waits(conn: psycopg.Connection[Any]) -> None:
    """Functions are replaced as a whole: none may lose what another change has added."""
    ending = conn.execute(
        "SELECT proname, prosrc LIKE '%tell\\_waiting%' FROM pg_proc"
        " WHERE pronamespace = 'rota'::regnamespace"
        " AND prosrc LIKE '%INSERT INTO rota.ended\\_runs%'"
    ).fetchall()
    assert ending
    assert all(tells for _, tells in ending), ending
