"""Sessions of Rota's own carry what its statements rely on; those lent to users' code do not."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rota
from rota.postgres.migrate import known, migrate
from rota.postgres.sessions.opening import SETTINGS, AsyncSession, Session, lent, own
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import Server
from tests.poolers import refusing_pooler

# What a database may say for every session that nothing else is said for.
ODD = {
    "jit": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "idle_session_timeout": "7min",
    "idle_in_transaction_session_timeout": "1s",
    "statement_timeout": "1s",
    "lock_timeout": "1s",
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "TimeZone": "Pacific/Auckland",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "search_path": "hostile, pg_catalog",
}
# What Rota sets nothing about, and has to bear.
BORNE = {"row_security": "off", "quote_all_identifiers": "on", "client_encoding": "SQL_ASCII"}
HOSTILE = """
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
CREATE FUNCTION hostile.lower(text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
CREATE VIEW hostile.pg_class AS SELECT * FROM pg_catalog.pg_class WHERE false;
CREATE TABLE hostile.runs (id text);
"""
_SHOWN = sql.SQL("SELECT {}").format(
    sql.SQL(", ").join(sql.SQL("current_setting({})").format(name) for name in ODD)
)


@pytest.fixture
def odd_url(database_url: str) -> str:
    _say_otherwise(database_url)
    return database_url


def _say_otherwise(database_url: str) -> None:
    """About everything that Rota sets."""
    database = sql.Identifier(str(conninfo_to_dict(database_url)["dbname"]))
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(HOSTILE)
        for name, value in (ODD | BORNE).items():
            statement = sql.SQL("ALTER DATABASE {} SET {} = {}")
            to = sql.SQL(value) if name == "search_path" else value
            conn.execute(statement.format(database, sql.Identifier(name), to))
        if conn.info.server_version >= 170000:
            statement = sql.SQL("ALTER DATABASE {} SET transaction_timeout = '1s'")
            conn.execute(statement.format(database))


def _shown(conn: psycopg.Connection[Any]) -> dict[str, str]:
    return dict(zip(ODD, conn.execute(_SHOWN).fetchone() or (), strict=True))


def test_every_setting_is_tried() -> None:
    assert SETTINGS.keys() == ODD.keys()


async def test_sessions_of_our_own_have_what_we_rely_on(odd_url: str) -> None:
    app = rota.App(config=load_config(odd_url, {}))
    async with app:
        async with app.database.connection() as pooled, await app.database.connect("x") as lone:
            for conn in (pooled, lone):
                row = await (await conn.execute(_SHOWN)).fetchone()
                assert dict(zip(ODD, row or (), strict=True)) == SETTINGS
        with app.database.connection_sync() as sync_pooled, app.database.connect_sync("x") as sync:
            assert (_shown(sync_pooled), _shown(sync)) == (SETTINGS, SETTINGS)


def test_sessions_that_are_lent_find_the_server_as_it_is(odd_url: str) -> None:
    with psycopg.connect(odd_url, **lent("x")) as conn:
        assert _shown(conn) == ODD


def test_migrating_a_server_that_says_otherwise(server: Server) -> None:
    with server.fresh_database("template1") as url:
        _say_otherwise(url)
        assert len(migrate(url, "rota")) == len(known())


async def test_a_day_of_work_on_a_server_that_says_otherwise(odd_url: str) -> None:
    await a_day_of_work(odd_url)


async def test_transactions_of_ours_may_be_long(odd_url: str) -> None:
    """A bound that releases from 17 know, in the first session of a process and in the others."""
    conns = [Session.connect(odd_url, **own("x")) for _ in range(2)]
    for conn in conns:
        row = conn.execute("SELECT current_setting('transaction_timeout', true)").fetchone()
        assert row in (("0",), (None,))
        conn.close()
    async with await AsyncSession.connect(odd_url, **own("x")) as lone:
        cursor = await lone.execute("SELECT current_setting('transaction_timeout', true)")
        assert await cursor.fetchone() in (("0",), (None,))


def test_options_of_the_user_are_kept(odd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "SELECT current_setting('work_mem'), current_setting('jit')"
    with Session.connect(make_conninfo(odd_url, options="-c work_mem=7MB"), **own("x")) as conn:
        assert conn.execute(shown).fetchone() == ("7MB", "off")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=9MB -c jit=on")
    with Session.connect(odd_url, **own("x")) as conn:
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
