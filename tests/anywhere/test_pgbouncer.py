"""Behind PgBouncer in transaction mode everything works that needs no session; what needs one takes
`database.direct_url`, or does without and says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic_ns
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import rota
from rota.engine.logs.log_lines import COPY_BEGIN, COPY_END, BufferedLine, to_copy
from rota.engine.logs.log_writer import LogWriter, Unanswered
from rota.engine.processes.parent_lease import ParentLease
from rota.errors import DatabaseError
from rota.postgres.migrate import migrate
from rota.postgres.runs.moves import rescue
from rota.postgres.sessions.pool import Database
from rota.telemetry.logging import get_logger
from rota.testing import eventually
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import Server
from tests.pgbouncer import PgBouncer, pgbouncer
from tests.sql_engine import Engine

pytestmark = pytest.mark.xdist_group("pgbouncer")


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[PgBouncer]:
    with pgbouncer(server.url("postgres"), "transaction") as found:
        yield found


@pytest.fixture
def pooled_url(pooler: PgBouncer, database_url: str) -> str:
    return pooler.url(database_url)


@pytest.fixture
def sql_job(conn: psycopg.Connection[Any]) -> str:
    conn.execute(
        "CREATE FUNCTION public.count_up(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN jsonb_build_object('success', true, 'message', 'done'); END $$"
    )
    return Engine(conn).job("count", kind="sql", function_name="public.count_up")


async def test_a_day_of_work(pooled_url: str, sql_job: str) -> None:
    await a_day_of_work(pooled_url, sql_job=sql_job)


async def test_a_day_of_work_with_a_direct_way(
    pooled_url: str, database_url: str, sql_job: str
) -> None:
    await a_day_of_work(pooled_url, sql_job=sql_job, **{"database.direct_url": database_url})


async def test_nothing_of_a_handler_stays_in_a_session_of_the_poolers(
    pooled_url: str, engine: Engine
) -> None:
    """Whoever gets the server's connection next is somebody else."""
    app = rota.App(config=load_config(pooled_url, {}))

    @app.job(max_attempts=1)
    async def spoil(ctx: rota.Context, fails: bool) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("CREATE TEMP TABLE leftover (n int)")
            await conn.execute("DECLARE held CURSOR WITH HOLD FOR SELECT 1")
            await conn.execute("SET search_path = elsewhere")
            await conn.execute("SELECT pg_advisory_lock(4711)")
            if fails:
                raise LookupError

    async with app, app.worker():
        await (await spoil.enqueue(fails=False)).wait(20)
        with pytest.raises(rota.RunFailed, match="LookupError"):
            await (await spoil.enqueue(fails=True)).wait(20)
        assert engine.one("SELECT count(*) FROM pg_class WHERE relname = 'leftover'") == 0
        assert (
            engine.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711")
            == 0
        )
        async with await psycopg.AsyncConnection.connect(pooled_url, autocommit=True) as conn:
            for _ in range(20):  # whichever of its connections the pooler lends
                cursor = await conn.execute("SHOW search_path", prepare=False)
                assert await cursor.fetchone() == ('"$user", public',)


_SPOIL = """
CREATE FUNCTION public.spoil(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
    CREATE TEMP TABLE leftover (n int);
    EXECUTE 'DECLARE held CURSOR WITH HOLD FOR SELECT 1';
    EXECUTE 'PREPARE leftover AS SELECT 1';
    SET search_path = elsewhere;
    PERFORM pg_advisory_lock(4711);
    RETURN pg_catalog.jsonb_build_object('success', 1 / (payload ->> 'n')::int = 1, 'message', 'x');
END $$
"""
_LEFT = """
SELECT (SELECT count(*) FROM pg_class WHERE relname = 'leftover'),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711),
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors),
    current_setting('search_path')
"""


@pytest.mark.parametrize(("n", "state"), [(1, "succeeded"), (0, "failed")])
@pytest.mark.parametrize("role", [None, "pooled_clerk"])
async def test_nothing_of_a_function_stays_in_a_session_of_the_poolers(
    pooled_url: str, engine: Engine, role: str | None, n: int, state: str
) -> None:
    """Above all nothing of a role through which jobs run: a temporary table comes before those of
    whoever gets the server's connection next, and its triggers would run as that one."""
    engine.conn.execute(_SPOIL)
    try:
        if role is not None:
            engine.conn.execute(f"CREATE ROLE {role}".encode())
            engine.rows("SELECT rota.allow_run_as(%s)", role)
        engine.job("spoil", kind="sql", function_name="public.spoil", max_attempts=1, run_as=role)
        app = rota.App(config=load_config(pooled_url, {}))
        async with app, app.worker():
            run = engine.enqueue("spoil", {"n": n})
            assert (await app.runs.wait(run, timeout=60)).state == state
            async with await psycopg.AsyncConnection.connect(pooled_url, autocommit=True) as conn:
                for _ in range(20):  # whichever of its connections the pooler lends
                    cursor = await conn.execute(_LEFT, prepare=False)
                    assert await cursor.fetchone() == (0, 0, 0, 0, '"$user", public')
    finally:
        if role is not None:
            engine.conn.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}".encode())


async def test_a_worker_says_that_it_polls(
    pooled_url: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    app = rota.App(config=load_config(pooled_url, {}))
    async with app, app.worker() as worker:
        assert not app.database.has_sessions
        (found,) = await app.workers.list()
        assert (found.id, found.is_polling, found.trouble) == (worker.id, True, None)
    said = [line for line in caplog.messages if "polling for work" in line]
    assert len(said) == 1
    assert "database.direct_url" in said[0]
    # Nobody else may hear what it would have left in a session of the pooler's.
    listening = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'listen%%'"
    assert engine.one(f"{listening} AND datname = current_database()") == 0


async def test_a_direct_way_is_listened_on(pooled_url: str, database_url: str) -> None:
    settings = {"database.direct_url": database_url, "worker.poll_seconds": 60.0}
    app = rota.App(config=load_config(pooled_url, settings))

    @app.job
    async def work() -> None: ...

    async with app, app.worker() as worker:
        await eventually(lambda: worker._parts.listener.is_listening)
        assert not (await app.workers.list())[0].is_polling
        # Its waiting is told by the call alone: nobody looks before a minute has passed.
        for _ in range(3):
            await (await work.enqueue()).wait(20)


async def test_in_session_mode_there_are_sessions(server: Server, database_url: str) -> None:
    with pgbouncer(server.url("postgres"), "session", "options") as pooler:
        app = rota.App(config=load_config(pooler.url(database_url), {}))
        async with app, app.worker() as worker:
            assert app.database.has_sessions
            await eventually(lambda: worker._parts.listener.is_listening)


async def test_a_pooler_that_swallows_settings_is_seen_through(
    server: Server, database_url: str
) -> None:
    with pgbouncer(server.url("postgres"), "transaction", "options") as pooler:
        app = rota.App(config=load_config(pooler.url(database_url), {}))
        async with app:
            assert not app.database.has_sessions


def test_migrating_through_it(pooler: PgBouncer, server: Server) -> None:
    with server.fresh_database("template1") as url:
        assert migrate(pooler.url(url), "rota")


async def test_settings_that_cannot_serve_are_refused_in_words(
    pooled_url: str, conn: psycopg.Connection[Any]
) -> None:
    conn.execute(f"ALTER DATABASE {conn.info.dbname} SET DateStyle = 'German, DMY'")
    app = rota.App(config=load_config(pooled_url, {}))
    with pytest.raises(DatabaseError) as refused:
        await app.database.open()
    assert "ALTER ROLE postgres SET DateStyle = 'ISO, MDY'" in str(refused.value.hint)


async def test_settings_that_serve_badly_are_told(
    pooled_url: str, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    conn.execute(f"ALTER DATABASE {conn.info.dbname} SET statement_timeout = '1min'")
    app = rota.App(config=load_config(pooled_url, {}))
    async with app:
        assert await app.runs.list() == []
    (said,) = [line for line in caplog.messages if "the pooler does not pass settings on" in line]
    assert "SET statement_timeout = '0'" in said


async def test_what_is_the_applications_own_is_left_alone(
    pooled_url: str, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its sessions have the same role: without `public` in the path its statements would fail.
    Rota's own do not depend on either."""
    for setting in ("search_path = public", "TimeZone = 'Europe/Vienna'"):
        conn.execute(f"ALTER DATABASE {conn.info.dbname} SET {setting}".encode())
    await a_day_of_work(pooled_url)
    assert not any("search_path" in line or "TimeZone" in line for line in caplog.messages)


async def test_a_lease_is_renewed_past_it(pooled_url: str, database_url: str) -> None:
    """Long transactions may have taken all that the pooler lends."""
    settings = {"database.direct_url": database_url}
    app = rota.App(config=load_config(pooled_url, settings))
    asked: list[str] = []
    connect = Database.connect_sync

    def note(self: Database, name: str, *args: Any, **options: Any) -> Any:
        conn = connect(self, name, *args, **options)
        asked.append(f"{name.rsplit(' ', 1)[0]} {conn.info.port}")
        return conn

    direct = urlsplit(database_url).port
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "connect_sync", note)
        async with app, app.worker():
            await eventually(lambda: f"rota lease {direct}" in asked)
            supervisor = ParentLease(app.database, lease_seconds=30)
            supervisor._fetch(rescue(1, everywhere=False))
            supervisor._close()
    assert f"rota {direct}" in asked, "the supervisor, who renews for its children"


async def test_a_procedure_needs_a_session(
    pooled_url: str, database_url: str, engine: Engine
) -> None:
    engine.conn.execute("CREATE TABLE public.effects (n int)")
    engine.conn.execute(
        "CREATE PROCEDURE public.steps() LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.effects VALUES (1); COMMIT; END $$"
    )
    columns = {"kind": "sql", "function_name": "public.steps", "transaction_mode": "none"}
    engine.job("steps", max_attempts=1, **columns)
    for settings, state in (({}, "failed"), ({"database.direct_url": database_url}, "succeeded")):
        run_id = engine.enqueue("steps")
        app = rota.App(config=load_config(pooled_url, settings))
        async with app, app.worker():
            await eventually(lambda run_id=run_id: engine.run(run_id)["finished_at"] is not None)
        assert engine.run(run_id)["state"] == state, engine.run(run_id)
        if state == "failed":
            assert "database.direct_url" in engine.run(run_id)["last_error"]


async def test_waiting_for_a_run_leaves_nothing_in_a_session(
    pooled_url: str, engine: Engine
) -> None:
    app = rota.App(config=load_config(pooled_url, {}))

    @app.job
    async def work() -> int:
        return 7

    async with app, app.worker():
        assert await (await work.enqueue()).wait(20) == 7
    sessions = "pg_stat_activity WHERE datname = current_database()"
    assert engine.one(f"SELECT count(*) FROM {sessions} AND query ILIKE 'listen%%'") == 0


async def test_lines_of_a_connection_that_broke_are_stored_once(
    pooled_url: str, database_url: str, engine: Engine
) -> None:
    """The pooler's number of a client says nothing about the process that stores its lines."""
    app = rota.App(config=load_config(pooled_url, {}))
    await app.database.open()
    writer = LogWriter(app.database, get_logger("logs"))
    line = BufferedLine(monotonic_ns(), 1, 1, 1, 1, "info", "work", "", "once", None)
    with psycopg.connect(database_url) as broken:  # what the server has of it
        with broken.cursor() as cursor, cursor.copy(writer._copy_sql) as copy:
            rows = to_copy([line], datetime.now(UTC), monotonic_ns())
            copy.write(COPY_BEGIN + rows + COPY_END)
        writer._doubtful = {(1, 1, 1)}
        with pytest.raises(Unanswered):
            await writer.write([line])
        broken.commit()
    await writer.write([line])
    assert engine.one("SELECT count(*) FROM rota.logs WHERE message = 'once'") == 1
    await app.close()
