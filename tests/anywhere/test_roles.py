"""Roles without special rights: one that owns its database, and one that owns nothing."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

import rota
from rota.engine.logs.log_indexes import LogIndexes
from rota.errors import RotaError
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import Server
from tests.sql_engine import Engine

pytestmark = pytest.mark.xdist_group("roles")
OWNER, WORKER, PASSWORD = "plain_owner", "plain_worker", "a 'password'"
_RIGHTS = """
SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls OR rolreplication,
       EXISTS (SELECT FROM pg_shdepend d WHERE d.refobjid = r.oid AND d.deptype = 'o')
FROM pg_roles r WHERE rolname = %s
"""


def test_the_roles_are_plain(granted_url: str, roles: Server) -> None:
    assert roles.admin.execute(_RIGHTS, [WORKER]).fetchone() == (False, False)
    assert (roles.admin.execute(_RIGHTS, [OWNER]).fetchone() or ())[0] is False


async def test_a_day_of_work_as_the_owner(owned_url: str) -> None:
    await a_day_of_work(owned_url)


async def test_a_day_of_work_as_a_role_that_owns_nothing(granted_url: str) -> None:
    await a_day_of_work(granted_url)


async def test_what_only_an_owner_may_do_is_done_for_it(granted_url: str) -> None:
    """Partitions, old ones and new ones, and the index of yesterday's lines."""
    app = rota.App(config=load_config(granted_url, {}))
    with psycopg.connect(granted_url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.rows("SELECT rota.ensure_partitions(rota.now() - interval '60 days', rota.now())")
        engine.rows("SELECT rota.ensure_ledger(ARRAY[rota.now() - interval '60 days'])")
        engine.rows(
            "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)"
            " SELECT rota.now() - interval '1 day', 1, 1, 1, n, 'info', 'work', 'word ' || n"
            " FROM generate_series(1, 100) n"
        )
        old = "to_at < rota.now() - interval '40 days' AND parent = 'ended_runs_standard'"
        count = f"SELECT count(*) FROM rota.history_parts() WHERE {old}"
        assert engine.one(count) > 0
        async with app:
            result = await app.retention.run(hurry=True)
            assert any(item.action == "drop" and item.note is None for item in result.items)
            assert engine.one(count) == 0
            indexes = LogIndexes(app.database)
            while await indexes.run_once() == 0.0:
                pass
            found = await app.logs.search("word", since=timedelta(days=3))
            assert len(found.lines) == 100
        built = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'logs\\_%%\\_words\\_%%'"
        assert engine.one(built) >= 1


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE rota.jobs",
        "INSERT INTO rota.migrations VALUES (9999, 'x', 9999)",
        "CREATE TABLE rota.mine (n int)",
        "SELECT rota.drop_part('jobs')",
    ],
)
def test_it_may_do_no_more(granted_url: str, statement: str) -> None:
    with psycopg.connect(granted_url, autocommit=True) as conn:
        if "drop_part" in statement:
            conn.execute(statement.encode())  # what is no partition of the history is left alone
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement.encode())
        assert conn.execute("SELECT count(*) FROM rota.jobs").fetchone()


def test_who_may_grant(owned_url: str, granted_url: str) -> None:
    for url, role, words in (
        (owned_url, "nobody_there", 'there is no role "nobody_there"'),
        (granted_url, WORKER, f'only "{OWNER}"'),
    ):
        app = rota.App(config=load_config(url, {}))
        with pytest.raises(RotaError, match=words):
            app.grant(role)
        app.close_sync()


def test_a_later_migration_grants_by_itself(owned_url: str, granted_url: str) -> None:
    with psycopg.connect(owned_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE rota.later (n int)")
        conn.execute("CREATE FUNCTION rota.later() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        conn.execute("REVOKE ALL ON FUNCTION rota.later() FROM PUBLIC")
    with psycopg.connect(granted_url, autocommit=True) as conn:
        conn.execute("INSERT INTO rota.later SELECT rota.later()")
