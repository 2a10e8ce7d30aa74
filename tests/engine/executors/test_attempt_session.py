"""Users' code finds its own tables, and what it sets does not reach the end of its run."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rota
from rota.engine.executors.attempt_session import AttemptSession
from rota.model.run import Claim
from rota.postgres.statements import Statements
from tests.conftest import load_config
from tests.sql_engine import Engine

GOOD = """'{"success": true, "message": "done"}'::jsonb"""
# As in a guide to scheduled SQL functions, word for word.
DAILY_CLEANUP = """
CREATE OR REPLACE FUNCTION run_daily_cleanup()
RETURNS JSONB
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = metadata, public
AS $$
DECLARE
    v_deleted INT;
BEGIN
    DELETE FROM some_temp_table WHERE created_at < NOW() - INTERVAL '30 days';
    GET DIAGNOSTICS v_deleted = ROW_COUNT;

    RETURN jsonb_build_object(
        'success', true,
        'message', format('Deleted %s old records', v_deleted),
        'details', jsonb_build_object('deleted_count', v_deleted)
    );
END;
$$;
"""


@pytest.fixture
def namesake(database_url: str, conn: psycopg.Connection[Any]) -> str:
    """The database for a role that is called like the schema."""
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        conn.execute("CREATE ROLE rota SUPERUSER LOGIN PASSWORD 'rota'")
    return make_conninfo(database_url, user="rota", password="rota")


@pytest.fixture(params=["another role", "role rota"])
def url(request: pytest.FixtureRequest, database_url: str, namesake: str) -> str:
    return namesake if request.param == "role rota" else database_url


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    conn.execute("CREATE TABLE public.logs (line text)")
    conn.execute("INSERT INTO public.logs VALUES ('mine')")
    return Engine(conn)


def _lending(schema: str = "rota") -> AttemptSession:
    claim = Claim._make([1] * len(Claim._fields))
    return AttemptSession(Statements(schema), claim, 1, 4.5)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ('"$user", public', "public"),
        ("public, $user", "public"),
        ('"$user"', ""),
        ('mine, "$user" , "a,b"', 'mine, "a,b"'),
        ('"not$user", "$user",public', '"not$user",public'),
        ("rota, public", "rota, public"),
    ],
)
def test_the_schema_is_in_the_path_only_by_name(namesake: str, given: str, found: str) -> None:
    with psycopg.connect(namesake, autocommit=True) as conn, conn.transaction():
        conn.execute("SELECT set_config('search_path', %s, true)", [given])
        conn.execute(*_lending("other").begin())
        assert conn.execute("SHOW search_path").fetchone() == (given,)
        conn.execute(*_lending().begin())
        assert conn.execute("SHOW search_path").fetchone() == (found,)


async def test_a_handler_finds_its_own_tables(url: str, engine: Engine) -> None:
    app = rota.App(config=load_config(url, {}))

    @app.job
    async def clear(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("CREATE TABLE made (n int)")
            await conn.execute("DELETE FROM logs")

    @app.job(executor="thread")
    def clear_sync(ctx: rota.Context) -> None:
        with ctx.transaction_sync() as conn:
            conn.execute("CREATE TABLE made_sync (n int)")
            conn.execute("INSERT INTO logs VALUES ('again')")

    async with app, app.worker():
        await (await clear.enqueue()).wait(timeout=30)
        await (await clear_sync.enqueue()).wait(timeout=30)
    assert engine.rows("SELECT line FROM public.logs") == [{"line": "again"}]
    for name in ("made", "made_sync"):
        assert engine.one("SELECT to_regclass('public.' || %s) IS NOT NULL", name)


@pytest.mark.parametrize("mode", ["whole", "none"])
async def test_a_sql_job_finds_its_own_tables(url: str, engine: Engine, mode: str) -> None:
    kind, answer = (
        ("FUNCTION public.clear() RETURNS jsonb", f"RETURN {GOOD};")
        if mode == "whole"
        else ("PROCEDURE public.clear()", "")
    )
    engine.conn.execute(
        f"CREATE {kind} LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'at work'; DELETE FROM logs;"
        f" CREATE TABLE made (n int); {answer} END $$".encode()
    )
    engine.job("clear", kind="sql", function_name="public.clear", transaction_mode=mode)
    app = rota.App(config=load_config(url, {}))
    async with app, app.worker():
        ended = await app.runs.wait(engine.enqueue("clear"), timeout=30)
    assert ended.state == "succeeded"
    assert engine.rows("SELECT * FROM public.logs") == []
    assert engine.one("SELECT to_regclass('public.made') IS NOT NULL")
    assert engine.one("SELECT count(*) FROM rota.logs WHERE message = 'at work'") == 1


async def test_an_example_as_strangers_write_it(database_url: str, engine: Engine) -> None:
    """Typed into psql as the role of the embedded server."""
    engine.conn.execute("CREATE TABLE some_temp_table (created_at timestamptz)")
    engine.conn.execute("INSERT INTO some_temp_table VALUES (now() - interval '31 days'), (now())")
    engine.conn.execute(DAILY_CLEANUP)
    engine.conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name)"
        " VALUES ('daily_cleanup', 'sql', 'run_daily_cleanup')"
    )
    app = rota.App(config=load_config(database_url, {}))
    async with app, app.worker():
        ended = await app.runs.wait(engine.enqueue("daily_cleanup"), timeout=30)
    assert (ended.state, ended.message) == ("succeeded", "Deleted 1 old records")
    assert engine.one("SELECT count(*) FROM public.some_temp_table") == 1


SPOILT = """
SET SESSION search_path = evil;
SET LOCAL ROLE narrow;
SET array_nulls = off;
SET statement_timeout = '1ms';
SET LOCAL TimeZone = 'Asia/Tokyo';
SET application_name = 'other';
SET idle_in_transaction_session_timeout = 0
"""


@pytest.fixture
def narrow(conn: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        conn.execute("CREATE ROLE narrow")


@pytest.mark.usefixtures("narrow")
async def test_what_a_handler_sets_does_not_reach_the_end_of_its_run(
    url: str, engine: Engine
) -> None:
    app = rota.App(config=load_config(url, {}))

    @app.job
    async def spoil(ctx: rota.Context) -> dict[str, Any]:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO logs VALUES ('written')")
            await conn.execute(SPOILT)
        return {"n": None}

    @app.job(executor="thread")
    def spoil_sync(ctx: rota.Context) -> None:
        with ctx.transaction_sync() as conn:
            conn.execute("INSERT INTO logs VALUES ('written')")
            conn.execute(SPOILT)

    async with app, app.worker():
        assert await (await spoil.enqueue()).wait(timeout=30) == {"n": None}
        assert await (await spoil_sync.enqueue()).wait(timeout=30) is None
    assert engine.one("SELECT count(*) FROM public.logs WHERE line = 'written'") == 2


@pytest.mark.usefixtures("narrow")
async def test_what_a_function_sets_does_not_reach_the_end_of_its_run(
    url: str, engine: Engine
) -> None:
    engine.conn.execute(
        "CREATE FUNCTION public.spoil() RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN"
        f" {SPOILT}; RETURN {GOOD}; END $$".encode()
    )
    engine.job("spoil", kind="sql", function_name="public.spoil")
    app = rota.App(config=load_config(url, {}))
    async with app, app.worker():
        ended = await app.runs.wait(engine.enqueue("spoil"), timeout=30)
    assert (ended.state, ended.message) == ("succeeded", "done")
