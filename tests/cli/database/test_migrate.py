from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.postgres.migrate import known
from tests.cli.conftest import Cli
from tests.database import Server


def test_up_to_date(cli: Cli) -> None:
    place, text = cli.done("migrate").out.splitlines()
    assert text == 'schema "rota" is up to date'
    found = cli.done("migrate", "--plan", "--json").json
    told = {"database": place, "schema": "rota", "is_applied": False, "migrations": []}
    assert found == told


def test_it_says_which_database_and_no_secret(cli: Cli, app_url: str) -> None:
    known = conninfo_to_dict(app_url)
    place = cli.done("migrate").out.splitlines()[0]
    assert place == f'database "{known["dbname"]}" at {known["host"]}, port {known["port"]}'
    assert str(known["password"]) not in place


def test_plan_then_migrate(bare_cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.fresh_database("template0") as url:
        monkeypatch.setenv("ROTA_DATABASE_URL", url)
        result = bare_cli("runs", "list")
        assert result.code == 1
        assert "hint: run `rota migrate`" in result.err
        plan = bare_cli.done("migrate", "--plan").out.splitlines()
        assert plan[1:] == [f"would apply {one}" for one in known()]
        assert bare_cli.done("migrate").out.splitlines()[-1].startswith("applied ")
        assert bare_cli.done("runs", "list", "--json").json == []


def test_a_schema_of_before_the_first_release(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("UPDATE rota.migrations SET name = 'foundation' WHERE number = 1")
    for command in (["migrate"], ["migrate", "--plan"]):
        result = cli(*command)
        assert result.code == 1
        assert "was created by a version before 0.1.0" in result.err
        assert 'hint: drop it with all its data (DROP SCHEMA "rota" CASCADE), or set' in result.err


def test_a_schema_of_another_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SCHEMA", "jobs")
    cli.done("migrate")
    assert cli.done("runs", "list", "--json").json == []


def test_a_role_that_is_called_like_the_schema_is_told(
    cli: Cli, conn: psycopg.Connection[Any], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ALTER ROLE" not in cli.done("migrate").err
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        conn.execute("CREATE ROLE rota SUPERUSER LOGIN PASSWORD 'rota'")
    url = make_conninfo(database_url, user="rota", password="rota")
    monkeypatch.setenv("ROTA_DATABASE_URL", url)
    told = cli.done("migrate")
    assert told.out.endswith('schema "rota" is up to date\n')
    assert 'ALTER ROLE "rota" SET search_path = public' in told.err
    settled = make_conninfo(url, options="-c search_path=public")
    monkeypatch.setenv("ROTA_DATABASE_URL", settled)
    assert "ALTER ROLE" not in cli.done("migrate").err


def test_a_schema_of_a_superuser_is_told(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    """The servers of tests are reached as one."""
    (role,) = conn.execute("SELECT current_user").fetchone() or ("",)
    said = cli("migrate").err
    assert f'the schema belongs to the superuser "{role}"' in said
    conn.execute("CREATE ROLE plain_owner_of_jobs")
    conn.execute("ALTER TABLE rota.jobs OWNER TO plain_owner_of_jobs")
    try:
        assert "superuser" not in cli("migrate").err
    finally:
        conn.execute("ALTER TABLE rota.jobs OWNER TO CURRENT_USER")
        conn.execute("DROP ROLE plain_owner_of_jobs")


def test_the_rights_of_workers_for_a_role(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        conn.execute("CREATE ROLE plain_guest")
    told = cli.done("grant", "plain_guest")
    assert told.out == 'role "plain_guest" may run workers, the API and commands\n'
    found = cli.done("grant", "plain_guest", "--json").json
    assert found == {"role": "plain_guest", "is_granted": True}
    right = "SELECT has_function_privilege('plain_guest', p.oid, 'execute') FROM pg_proc p"
    assert conn.execute(f"{right} WHERE p.proname = 'claim_runs'".encode()).fetchone() == (True,)
    refused = cli("grant", "nobody_there")
    assert refused.code != 0
    assert 'there is no role "nobody_there"' in refused.err


def test_a_database_that_is_away(
    cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", make_conninfo(database_url, dbname="nowhere"))
    for command in (("migrate",), ("runs", "list"), ("queues", "list")):
        result = cli(*command)
        assert result.code == 1
        assert 'database "nowhere" does not exist' in result.err
        assert "Traceback" not in result.err


def test_no_database_at_all(bare_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = bare_cli("runs", "list")
    assert result.code == 2
    assert "no database is configured" in result.err
    assert not (here / ".rota").exists()
    monkeypatch.setenv("ROTA_EMBEDDED", "false")
    assert bare_cli("runs", "list").code == 2


def test_debug_shows_the_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DEBUG", "1")
    result = cli("runs", "show", 99)
    assert "Traceback" in result.err
    assert result.err.endswith("error: there is no run 99\n")


def test_connection_refused(bare_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    result = bare_cli("runs", "list")
    assert result.code == 1
    assert "error: connection" in result.err
    assert "hint: is the database running?" in result.err
    assert psycopg.__name__ not in result.err
