"""On a server that compiles queries, which is the default, it compiles none of Rota's."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rota
from rota.embedded import EmbeddedPostgres
from rota.postgres.migrate import migrate
from rota.testing import eventually
from tests.conftest import load_config
from tests.database import fast_directory
from tests.distribution import find_distribution
from tests.sql_engine import Engine

_SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all"}
_COMPILED = "SELECT query FROM pg_stat_statements WHERE jit_functions > 0"


@pytest.fixture(scope="module")
def stock() -> Iterator[str]:
    """A distribution's server, which says of each statement whether it was compiled."""
    bin_dir = find_distribution()
    if bin_dir is None:
        pytest.skip("no server of a distribution here")
    place = Path(tempfile.mkdtemp(prefix="rota-jit-", dir=fast_directory()))
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data", durable=False, settings=_SETTINGS, bin_dir=bin_dir)
    with server:
        with psycopg.connect(server.superuser_url, autocommit=True) as conn:
            if conn.execute("SELECT pg_jit_available()").fetchone() != (True,):
                pytest.skip("the server of this distribution has no LLVM")
        yield server.superuser_url
    server.stop(wait_seconds=30)
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(params=["100000", "0"])
def url(stock: str, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"above_{request.param}"
    with psycopg.connect(stock, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        admin.execute(f"ALTER DATABASE {name} SET jit_above_cost = {request.param}")
        url = make_conninfo(stock, dbname=name)
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("CREATE EXTENSION pg_stat_statements")
        migrate(url, "rota")
        yield url
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def watching(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Counts from here on."""
    with psycopg.connect(url, autocommit=True, options="-c jit=off") as conn:
        conn.execute("SELECT pg_stat_statements_reset()")
        yield conn


def compiled(watching: psycopg.Connection[Any]) -> list[str]:
    return [query for (query,) in watching.execute(_COMPILED)]


def test_this_server_would_compile(url: str, watching: psycopg.Connection[Any]) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        assert conn.execute("SHOW jit").fetchone() == ("on",)
        conn.execute("SET jit_above_cost = 0")
        conn.execute("SELECT sum(n) FROM generate_series(1, 10) n")
    assert compiled(watching) == ["SELECT sum(n) FROM generate_series($1, $2) n"]


async def test_workers_and_faces_compile_nothing(
    url: str, watching: psycopg.Connection[Any]
) -> None:
    app = rota.App(config=load_config(url, {}))

    @app.job
    async def work(ctx: rota.Context, n: int) -> int:
        ctx.log.info("at work")
        if n == 3 and ctx.attempt == 1:
            raise ValueError("once")
        return n

    async with app:
        app.schedule("often", work, every=1, payload={"n": 1})
        async with app.worker():
            await app.enqueue_many([work.call(n=n) for n in range(200)])
            await work.options(delay=0.1).enqueue(7)
            await eventually(lambda: _all_ended(watching), timeout=60)
        await _look_round(app)
    assert compiled(watching) == []


def _all_ended(conn: psycopg.Connection[Any]) -> None:
    row = conn.execute(
        "SELECT count(*) FILTER (WHERE schedule_id IS NULL),"
        " count(*) FILTER (WHERE schedule_id IS NOT NULL) FROM rota.ended_runs"
    ).fetchone()
    assert row is not None
    assert row[0] == 201
    assert row[1] >= 1


async def _look_round(app: rota.App) -> None:
    """Lists, searches and statistics, async and sync."""
    assert len(await app.runs.list(limit=500)) > 200
    await app.runs.details((await app.runs.list())[0].id)
    for face in (app.jobs, app.queues, app.workers, app.schedules, app.calendars, app.audit):
        await face.list()
        face.sync.list()
    await app.logs.search("work")
    await app.stats.get()
    await app.overview.get()
    await app.schedules.history("often")
    await app.stats.metrics()
    await app.retention.run()


def test_functions_called_by_psql_compile_nothing(
    url: str, watching: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.job()
        worker = engine.worker()
        engine.enqueue(key="k")
        engine.one("SELECT rota.enqueue('work')")
        engine.conn.execute(
            "INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '* * * * *')"
        )
        first, second = engine.claim(worker)
        engine.succeed(worker, first)
        engine.requeue(worker, second)
        engine.cancel(second["id"])
        engine.one("SELECT rota.trigger_schedule('s')")
        engine.lose(worker)
        engine.rescue()
        engine.promote()
        engine.park()
    # Columns have `rota.now()` as their default: it is part of the statement that inserts.
    nested = watching.execute(f"{_COMPILED} AND NOT toplevel AND query !~ 'clock_offset'")
    assert nested.fetchall() == []


async def test_code_of_users_keeps_it_and_the_end_of_its_run_does_not(
    url: str, watching: psycopg.Connection[Any]
) -> None:
    app = rota.App(config=load_config(url, {}))

    @app.job
    async def work(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("SET LOCAL jit_above_cost = 0")
            await conn.execute("SELECT count(*) AS by_handler FROM pg_class")

    watching.execute(
        """
        CREATE FUNCTION public.report() RETURNS jsonb LANGUAGE plpgsql AS $$
        BEGIN
            SET LOCAL jit_above_cost = 0;
            PERFORM count(*) AS by_function FROM pg_class;
            RETURN '{"success": true, "message": ""}';
        END $$;
        INSERT INTO rota.jobs (name, kind, function_name) VALUES ('report', 'sql', 'public.report')
        """
    )
    async with app, app.worker():
        await (await work.enqueue()).wait(timeout=30)
        run_id = Engine(watching).enqueue("report")
        assert (await app.runs.wait(run_id, timeout=30)).state == "succeeded"
    found = "\n".join(compiled(watching))
    assert "by_handler" in found
    assert "by_function" in found
    assert "finish_runs" not in found
