from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from rota.errors import DatabaseError, InputError, RunNotFound, SchemaError, UnknownJob
from rota.postgres.errors import as_rota_error, translate, translate_foreign


def test_the_schemas_own_codes_become_our_errors(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(UnknownJob, match='no job is named "x"') as caught, translate():
        conn.execute("SELECT rota.enqueue('x')")
    assert caught.value.hint is not None
    assert isinstance(caught.value.__cause__, psycopg.Error)
    with pytest.raises(RunNotFound, match="there is no run 5"), translate():
        conn.execute("SELECT rota.cancel_run(5)")


def test_any_other_error_keeps_its_code(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(DatabaseError, match="division by zero") as caught, translate():
        conn.execute("SELECT 1 / 0")
    assert caught.value.sqlstate == "22012"


def test_a_server_that_is_not_there_is_a_database_error() -> None:
    with pytest.raises(DatabaseError, match="connection") as caught, translate():
        psycopg.connect("postgresql://nobody@127.0.0.1:1/none", connect_timeout=2)
    assert caught.value.sqlstate is None


def test_what_the_driver_refuses_is_no_outage(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(DatabaseError) as caught, translate():
        conn.execute("SELECT %s", [])
    assert caught.value.sqlstate == "XX000"


def test_a_schema_that_is_not_there_says_migrate(conn: psycopg.Connection[Any]) -> None:
    conn.execute("DROP SCHEMA rota CASCADE")
    with pytest.raises(SchemaError) as caught, translate():
        conn.execute("SELECT rota.enqueue('x')")
    assert "run `rota migrate` for this database; `--app` or `--config`" in str(caught.value.hint)


def test_errors_that_are_not_the_databases_pass() -> None:
    for translation in (translate(), translate_foreign()):
        with pytest.raises(KeyError), translation:
            raise KeyError


def test_on_a_callers_connection_only_our_codes_change(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(UnknownJob), translate_foreign():
        conn.execute("SELECT rota.enqueue('x')")
    with pytest.raises(psycopg.errors.DivisionByZero), translate_foreign():
        conn.execute("SELECT 1 / 0")


@pytest.mark.parametrize("detail", ["order 7", "7", "[1]", None])
def test_a_code_of_ours_that_others_raise_keeps_their_words(detail: str | None) -> None:
    """A user's function may use it, and the name of a constraint that Rota uses too."""
    raised = SimpleNamespace(
        sqlstate="RO002",
        message="no {field}",
        detail=detail,
        hint="ask ada",
        constraint_name="next_time_past",
        column_name="at",
    )
    error = as_rota_error(raised)
    assert (type(error), str(error), error.hint) == (InputError, "no {field}", "ask ada")
    assert (error.values, error.problem) == ({}, "no {field}")
