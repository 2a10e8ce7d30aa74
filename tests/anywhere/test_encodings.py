"""Databases in other encodings than UTF-8."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import rota
from rota.errors import DatabaseError, SchemaError
from rota.postgres.migrate import migrate
from rota.testing import run_due
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import Server

pytestmark = pytest.mark.xdist_group("encodings")
# In LATIN1 are ä and é, and not these.
BEYOND = "costs 5 €, and snow: ☃"


@contextmanager
def encoded_database(server: Server, encoding: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{encoding.lower()}"
    provider = "LOCALE_PROVIDER libc" if server.admin.info.server_version >= 150000 else ""
    made = f"CREATE DATABASE {{}} TEMPLATE template0 ENCODING {{}} LOCALE 'C' {provider}"
    server.admin.execute(sql.SQL(made).format(sql.Identifier(name), encoding))
    try:
        yield server.url(name)
    finally:
        drop = "DROP DATABASE {} WITH (FORCE)"
        server.admin.execute(sql.SQL(drop).format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def latin1_url(server: Server) -> Iterator[str]:
    with encoded_database(server, "LATIN1") as url:
        migrate(url, "rota")
        yield url


async def test_a_day_of_work_in_latin1(latin1_url: str) -> None:
    await a_day_of_work(latin1_url)


async def test_what_latin1_cannot_hold_is_refused_to_its_caller(latin1_url: str) -> None:
    app = rota.App(config=load_config(latin1_url, {}))

    @app.job
    async def say(text: str) -> None: ...

    async with app:
        with pytest.raises(DatabaseError, match="LATIN1"):
            await say.enqueue(text=BEYOND)
        with pytest.raises(DatabaseError, match="LATIN1"):
            await app.enqueue_many([say.call(text="a"), say.call(text=BEYOND)])
        assert (await say.enqueue(text="Käse é")).id


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_what_latin1_cannot_hold_fails_its_own_run_only(
    latin1_url: str, executor: str
) -> None:
    """Results, errors, log lines, progress: the others of the same batch are as they were."""
    app = rota.App(config=load_config(latin1_url, {}))

    async def body(ctx: rota.Context, way: str) -> Any:
        text = BEYOND if way.startswith("bad") else "Käse é"
        ctx.log.warning(text, said=text)
        ctx.progress(0.5, text)
        if way.endswith("raise"):
            raise ValueError(text)
        return text if way.endswith("result") else None

    declared = app.job(name=f"say_{executor}", max_attempts=1)(body)
    ways = ["good result", "bad result", "bad raise", "good raise", "bad log", "good log"]
    async with app:
        runs = {way: await declared.enqueue(way=way) for way in ways}
        await run_due(app)
        ended = {way: await app.runs.get(run.id) for way, run in runs.items()}
        states = {way: run.state for way, run in ended.items()}
        assert states == {
            "good result": "succeeded", "bad result": "failed", "bad raise": "failed",
            "good raise": "failed", "bad log": "succeeded", "good log": "succeeded",
        }  # fmt: skip
        assert ended["good result"].result == "Käse é"
        assert "LATIN1" in str(ended["bad result"].last_error)
        assert "Käse é" in str(ended["good raise"].last_error)
        for way, run in runs.items():
            lines = [line.message for line in (await app.logs.show(run.id)).lines]
            assert any(
                "Käse é" in line if way.startswith("good") else "5 " in line for line in lines
            )


def test_sql_ascii_is_refused_in_a_sentence(server: Server) -> None:
    with encoded_database(server, "SQL_ASCII") as url, pytest.raises(SchemaError) as refused:
        migrate(url, "rota")
    assert "SQL_ASCII" in str(refused.value)
    with encoded_database(server, "SQL_ASCII") as url, psycopg.connect(url) as conn:
        assert conn.execute("SELECT to_regnamespace('rota')").fetchone() == (None,)


def test_statements_are_ascii() -> None:
    """Comments too: the server has to translate what it reads into its own encoding."""
    place = Path(rota.__file__).parent / "postgres" / "sql"
    odd = [str(file) for file in place.rglob("*.sql") if not file.read_text("utf-8").isascii()]
    assert odd == []
