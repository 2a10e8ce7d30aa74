"""Sessions of Rota's own carry what its statements rely on; those lent to users' code do not."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rota
from rota.store.sessions import AsyncSession, Session, lent, own
from tests.conftest import load_config
from tests.poolers import refusing_pooler


@pytest.fixture
def jit_url(database_url: str) -> str:
    """A database that says `jit = on` for every session."""
    name = sql.Identifier(str(conninfo_to_dict(database_url)["dbname"]))
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("ALTER DATABASE {} SET jit = on").format(name))
    return database_url


def _jit(conn: psycopg.Connection[tuple[object, ...]]) -> object:
    row = conn.execute("SHOW jit").fetchone()
    assert row is not None
    return row[0]


async def test_sessions_of_our_own_are_opened_without_jit(jit_url: str) -> None:
    app = rota.App(config=load_config(jit_url, {}))
    async with app:
        async with app.database.connection() as pooled, await app.database.connect("x") as lone:
            for conn in (pooled, lone):
                assert await (await conn.execute("SHOW jit")).fetchone() == ("off",)
        with app.database.connection_sync() as sync_pooled, app.database.connect_sync("x") as sync:
            assert (_jit(sync_pooled), _jit(sync)) == ("off", "off")


def test_sessions_that_are_lent_find_the_server_as_it_is(jit_url: str) -> None:
    with psycopg.connect(jit_url, **lent("x")) as conn:
        assert _jit(conn) == "on"


def test_options_of_the_user_are_kept(jit_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "SELECT current_setting('work_mem'), current_setting('jit')"
    with Session.connect(make_conninfo(jit_url, options="-c work_mem=7MB"), **own("x")) as conn:
        assert conn.execute(shown).fetchone() == ("7MB", "off")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=9MB -c jit=on")
    with Session.connect(jit_url, **own("x")) as conn:
        assert conn.execute(shown).fetchone() == ("9MB", "off")


async def test_a_pooler_that_takes_no_settings_is_asked_again_without(database_url: str) -> None:
    with refusing_pooler(database_url) as (url, seen):
        with Session.connect(url, **own("x")) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        async with await AsyncSession.connect(url, **own("x")) as conn:
            assert await (await conn.execute("SELECT 1")).fetchone() == (1,)
        app = rota.App(config=load_config(url, {}))
        async with app:
            assert await app.runs.list() == []
    assert [b"jit" in first for first in seen[:4]] == [True, False, True, False]


def test_another_refusal_is_not_tried_again(database_url: str) -> None:
    with refusing_pooler(database_url) as (url, seen), pytest.raises(psycopg.OperationalError):
        Session.connect(make_conninfo(url, password="wrong", host="127.0.0.1"), **own("x"))
    assert len(seen) == 2
