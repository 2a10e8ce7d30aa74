"""A run that ends in a week for which nobody has made room yet: the clock was put forward. On a
server that speaks another language, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from tests.conftest import MakeApp
from tests.sql_engine import Engine

SERVERS = [
    pytest.param("embedded", id="newest"),
    pytest.param("distribution", id="distribution", marks=pytest.mark.distribution),
]
pytestmark = pytest.mark.parametrize("server_kind", SERVERS)

LATER = "SELECT rota.set_clock(rota.now() + interval '900 days')"
GOOD = """'{"success": true, "message": "done"}'::jsonb"""


def _plain(app: rota.App, conn: psycopg.Connection[Any]) -> Any:
    @app.job(max_attempts=1)
    async def work() -> None:
        conn.execute(LATER)

    return work


def _transaction(app: rota.App, conn: psycopg.Connection[Any]) -> Any:
    @app.job(max_attempts=1)
    async def work(ctx: rota.Context) -> None:
        async with ctx.transaction() as own:
            await own.execute("SELECT 1")
            conn.execute(LATER)

    return work


def _transaction_sync(app: rota.App, conn: psycopg.Connection[Any]) -> Any:
    @app.job(max_attempts=1, executor="thread")
    def work(ctx: rota.Context) -> None:
        with ctx.transaction_sync() as own:
            own.execute("SELECT 1")
            conn.execute(LATER)

    return work


@pytest.mark.parametrize("declare", [_plain, _transaction, _transaction_sync])
async def test_a_handler_makes_room_for_its_end(
    server_kind: str,
    make_app: MakeApp,
    conn: psycopg.Connection[Any],
    declare: Callable[..., Any],
) -> None:
    app = make_app()
    work = declare(app, conn)
    run = await work.enqueue()
    async with app.worker():
        assert (await app.runs.wait(run.id, timeout=30)).state == "succeeded"


async def test_a_sql_job_makes_room_for_its_end(
    server_kind: str, make_app: MakeApp, conn: psycopg.Connection[Any]
) -> None:
    engine = Engine(conn)
    conn.execute(
        "CREATE FUNCTION public.later() RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN"
        f" PERFORM rota.set_clock(rota.now() + interval '900 days'); RETURN {GOOD}; END $$".encode()
    )
    engine.job("later", kind="sql", function_name="public.later", max_attempts=1)
    run_id = engine.enqueue("later")
    app = make_app()
    async with app.worker():
        assert (await app.runs.wait(run_id, timeout=30)).state == "succeeded"
