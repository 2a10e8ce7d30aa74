"""A made-up second release: its tables change by a numbered file, its functions, views and triggers
by their topic files alone. A database that the first release filled, and that its sessions still
use, ends with the same catalogue as a new one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.postgres import migrate
from rota.testing import eventually_sync
from tests.conformance.test_schema import is_waiting
from tests.database import Server
from tests.schema.catalogue import differences, read
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]

# Each change of a topic file: what stands there, and what stands there in the second release.
CHANGES = {
    # A column at the end of a table whose rows `live_workers` returns.
    "06_workers.sql": [
        (
            "intakes             integer[] NOT NULL DEFAULT '{}',\n",
            "intakes             integer[] NOT NULL DEFAULT '{}',\n    colour text,\n",
        ),
        # Another parameter, of a function that others call in their parsed bodies.
        (
            "FUNCTION rota.is_asleep(w rota.workers) ",
            "FUNCTION rota.is_asleep(w rota.workers, grace interval DEFAULT '1 minute') ",
        ),
        ("clock_timestamp() - interval '1 minute'\n$$", "clock_timestamp() - grace\n$$"),
    ],
    # A body.
    "29_values.sql": [("format(' \"%s\"', name)", "format(' «%s»', name)")],
    # Triggers: of a partitioned table, and a constraint trigger, which cannot be replaced.
    "27_metrics.sql": [("WHEN (NEW.state <> 'succeeded' OR", "WHEN (NEW.state IS NOT NULL OR")],
    "15_schedules.sql": [("WHEN (NEW.requires <> '[]')", "WHEN (NEW.requires IS NOT NULL)")],
    # Another order of columns, which no view can be replaced by, and a view of its own.
    "25_errors.sql": [
        ("SELECT e.id, e.job, e.queue, e.tenant,", "SELECT e.id, e.queue, e.job, e.tenant,"),
        (
            "COMMENT ON VIEW rota.dead_letters IS",
            "CREATE VIEW rota.dead_jobs AS SELECT DISTINCT d.job FROM rota.dead_letters d;\n"
            "COMMENT ON VIEW rota.dead_jobs IS 'Jobs with dead letters.';\n"
            "COMMENT ON VIEW rota.dead_letters IS",
        ),
    ],
}
NUMBERED = "ALTER TABLE rota.workers ADD COLUMN colour text;\n"


class Release:
    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self._monkeypatch = monkeypatch

    def use(self) -> None:
        self._monkeypatch.setattr(migrate, "STORE", self.place)
        migrate.known.cache_clear()


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Release, Release]]:
    """The first is today's schema, frozen; the second changes it."""
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(Path(str(migrate.STORE)) / "schema", first / "schema")
    (first / "migrations").mkdir()
    (first / "migrations" / "0001_baseline.sql").write_text(migrate.baseline().text, "utf-8")
    shutil.copytree(first, second)
    for name, changes in CHANGES.items():
        change(second / "schema" / name, changes)
    (second / "migrations" / "0002_colours.sql").write_text(NUMBERED, "utf-8")
    yield Release(first, monkeypatch), Release(second, monkeypatch)
    migrate.known.cache_clear()


def change(file: Path, changes: list[tuple[str, str]]) -> None:
    text = file.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, f"{file.name}: {old}"
        text = text.replace(old, new)
    file.write_text(text, "utf-8")


@pytest.fixture
def old_url(server: Server, releases: tuple[Release, Release]) -> Iterator[str]:
    """A database of the first release, with runs that wait, run and have failed."""
    with server.fresh_database("template1") as url:
        releases[0].use()
        assert [str(one) for one in migrate.migrate(url, "rota")] == ["0001_baseline"]
        with psycopg.connect(url, autocommit=True) as conn:
            engine = Engine(conn)
            engine.job("work", max_attempts=1)
            worker = engine.worker()
            for _ in range(3):
                engine.enqueue("work")
            failed, _ = engine.claim(worker, limit=2)
            engine.fail(worker, failed)
        yield url


def test_two_roads_to_the_second_release(
    server: Server, releases: tuple[Release, Release], old_url: str
) -> None:
    data = rows(old_url)
    releases[1].use()
    assert [str(one) for one in migrate.migrate(old_url, "rota")] == ["0002_colours"]
    assert rows(old_url) == data
    with server.fresh_database("template1") as new, server.fresh_database("template1") as built:
        migrate.migrate(new, "rota")
        (releases[1].place / "migrations" / "0001_baseline.sql").unlink()
        (releases[1].place / "migrations" / "0002_colours.sql").unlink()
        releases[1].use()
        migrate.migrate(built, "rota")
        wanted = without_rows(read(built))
        assert differences(wanted, without_rows(read(new))) == []
        assert differences(wanted, without_rows(read(old_url))) == []


def rows(url: str) -> list[Any]:
    with psycopg.connect(url) as conn:
        query = "SELECT id, state, job, attempt FROM rota.runs ORDER BY id"
        return conn.execute(query).fetchall()


def without_rows(catalogue: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in catalogue.items() if not key.startswith("rows ")}


# What sessions of the first release call: a changed function, one with another parameter, one
# whose parsed body calls it, one that returns the changed table's rows, a view, an enqueue.
CALLS = (
    "SELECT rota.row_words('jobs', 'mail')",
    "SELECT rota.is_asleep(w) FROM rota.workers w",
    "SELECT count(*) FROM rota.worker_loads()",
    "SELECT count(*) FROM rota.live_workers(NULL)",
    "SELECT id, job, error FROM rota.dead_letters",
    "SELECT rota.enqueue('work')",
)


def test_sessions_of_the_first_release_go_on(
    releases: tuple[Release, Release], old_url: str
) -> None:
    with (
        psycopg.connect(old_url, autocommit=True, prepare_threshold=0) as session,
        psycopg.connect(old_url) as holder,
        ThreadPoolExecutor() as threads,
    ):
        call(session)
        holder.execute("LOCK TABLE rota.schedules IN ROW EXCLUSIVE MODE")
        releases[1].use()
        migration = threads.submit(migrate.migrate, old_url, "rota")
        eventually_sync(lambda: is_waiting(session, "rota migrate"))
        call(session)
        holder.rollback()
        migration.result()
        call(session)
        assert session.execute("SELECT rota.row_words('jobs', 'mail')").fetchone() == (
            "job «mail»",
        )


def call(session: Connection) -> None:
    for statement in CALLS:
        session.execute(statement.encode())


def test_privileges_outlast_the_change(releases: tuple[Release, Release], old_url: str) -> None:
    """Also of what could not be replaced, and was dropped and created."""
    with psycopg.connect(old_url, autocommit=True) as conn:
        conn.execute("DROP ROLE IF EXISTS release_reader")
        conn.execute("CREATE ROLE release_reader")
        conn.execute("GRANT SELECT ON rota.dead_letters TO release_reader")
        conn.execute("REVOKE ALL ON FUNCTION rota.is_asleep FROM PUBLIC")
        conn.execute("GRANT EXECUTE ON FUNCTION rota.is_asleep TO release_reader")
        releases[1].use()
        migrate.migrate(old_url, "rota")
        asked = conn.execute(
            "SELECT has_table_privilege('release_reader', 'rota.dead_letters', 'SELECT'),"
            " has_function_privilege('release_reader', p.oid, 'EXECUTE'),"
            " has_function_privilege('public', p.oid, 'EXECUTE')"
            " FROM pg_proc p WHERE p.proname = 'is_asleep'"
        )
        assert asked.fetchall() == [(True, True, False)]
        conn.execute("DROP OWNED BY release_reader")
        conn.execute("DROP ROLE release_reader")


def test_what_users_built_on_a_function_is_not_dropped(
    releases: tuple[Release, Release], old_url: str
) -> None:
    with psycopg.connect(old_url, autocommit=True) as conn:
        conn.execute("CREATE VIEW public.mine AS SELECT id FROM rota.dead_letters")
        releases[1].use()
        with pytest.raises(rota.SchemaError, match=r"used by view public\.mine") as caught:
            migrate.migrate(old_url, "rota")
        assert "create it again" in str(caught.value.hint)
        assert migrate.installed(conn, "rota") == migrate.Installed(1, 0)
        conn.execute("DROP VIEW public.mine")
        assert len(migrate.migrate(old_url, "rota")) == 1


def test_what_a_numbered_file_drops_is_created_again(
    releases: tuple[Release, Release], old_url: str
) -> None:
    """A column cannot change its type under a view: the file drops the view."""
    text = "DROP VIEW rota.dead_letters;\nDROP FUNCTION rota.is_over(text, timestamptz);\n"
    file = releases[0].place / "migrations" / "0002_drops.sql"
    file.write_text(text, "utf-8")
    before = without_rows(read(old_url))
    releases[0].use()
    migrate.migrate(old_url, "rota")
    assert differences(before, without_rows(read(old_url))) == []
