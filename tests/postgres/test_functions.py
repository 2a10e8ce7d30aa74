"""What every function of the schema has, so that no migration forgets it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.postgres import migrate
from tests.database import Server

# The last column: in SQL and only reading, so that the planner takes it apart, which a SET clause
# would prevent; or it only calculates, and is called once for each row.
_FUNCTIONS = r"""
    SELECT p.proname::text, coalesce(p.proconfig, '{}'), l.lanname = 'sql'
        AND NOT (p.provolatile = 'v' AND p.prosrc ~* '\m(from|insert|update|delete)\M')
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = 'rota'::regnamespace AND p.prokind IN ('f', 'p') ORDER BY 1
"""


def test_no_function_is_compiled(conn: psycopg.Connection[Any]) -> None:
    """`SET jit = off` on it. Pinned plans look so expensive that a server which compiles queries
    would do it on each call, for psql and triggers too (docs/decisions/0017-sessions.md)."""
    functions = conn.execute(_FUNCTIONS).fetchall()
    lacking = [
        name
        for name, settings, is_taken_apart in functions
        if "jit=off" not in settings and (settings or not is_taken_apart)
    ]
    assert lacking == []


def test_what_the_planner_takes_apart_has_no_settings(conn: psycopg.Connection[Any]) -> None:
    functions = conn.execute(_FUNCTIONS).fetchall()
    whole = {name for name, settings, _ in functions if not settings}
    assert {"now", "live_workers", "line_words", "after"} <= whole


# Whose names, operators and backslashes nobody else can give a meaning: its body was parsed when it
# was made, or it has settings of its own.
_LOOSE = """
    SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = 'rota'::regnamespace AND l.lanname NOT IN ('internal', 'c')
      AND p.prosqlbody IS NULL
      AND NOT (ARRAY['search_path=pg_catalog, pg_temp', 'standard_conforming_strings=on'])
          [:1 + (strpos(p.prosrc, chr(92)) > 0)::integer] <@ coalesce(p.proconfig, '{}')
"""


def test_no_function_means_what_its_callers_session_makes_of_it(
    conn: psycopg.Connection[Any],
) -> None:
    assert conn.execute(_LOOSE).fetchall() == []


def test_a_function_that_a_migration_replaces_is_pinned_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = migrate.Migration(
        2,
        "later",
        "CREATE OR REPLACE FUNCTION rota.try_lock(name text) RETURNS boolean LANGUAGE plpgsql"
        " VOLATILE SET jit = off AS 'BEGIN RETURN true; END';"
        "CREATE OR REPLACE FUNCTION rota.now() RETURNS timestamptz LANGUAGE sql STABLE AS"
        " 'SELECT statement_timestamp()';"
        "CREATE FUNCTION rota.has_space(t text) RETURNS boolean LANGUAGE plpgsql SET jit = off AS"
        r" 'BEGIN RETURN t ~ ''\s''; END';"
        "CREATE FUNCTION rota.is_new(n integer) RETURNS boolean LANGUAGE sql AS 'SELECT n > 1;'",
    )
    monkeypatch.setattr(migrate, "known", lambda: (migrate.baseline(), later))
    with server.fresh_database("template1") as url:
        migrate.migrate(url, "rota")
        with psycopg.connect(url) as conn:
            assert conn.execute(_LOOSE).fetchall() == []
            assert conn.execute("SELECT rota.is_new(2)").fetchone() == (True,)


# What runs with the rights of the schema's owner, whoever calls it, and what each of them looks at
# before it does anything for its caller.
DEFINERS = {
    "close_log_spans": "nothing that a caller says but how much is too much, and never under an"
    " eighth; partitions by pg_partition_tree",
    "detach_part": "a partition, by pg_inherits, of a partitioned table of ours; its time is over",
    "drop_part": "a detached table, called and owned like such a partition; its time is over",
    "ensure_ledger": "instants that every reader can hold, of at most 1000 weeks",
    "ensure_partitions": "two instants at most 800 days apart; parents that are partitioned",
    "index_log_words": "an index that is called like its partition, which is one by pg_inherits;"
    " a span that close_log_spans wrote; its day is over, and no other object has the name",
    "watch_row": "how it was called, by what the server says of the call (is_watching); a watch"
    " that is there",
    "watch_rows": "the same; that its transition tables' names are no table of the caller's",
}
_DEFINERS = """
    SELECT p.proname, p.proconfig, has_function_privilege('public', p.oid, 'EXECUTE')
    FROM pg_proc p WHERE p.pronamespace = 'rota'::regnamespace AND p.prosecdef
"""
# Relations that a body names without a schema: pg_temp is in the path, so a caller may have one of
# that name. Functions and operators are never looked for there.
_RELATION = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:ONLY\s+)?([a-z_]+)\b(?![.(])")


def test_what_runs_as_the_owner_is_known(conn: psycopg.Connection[Any]) -> None:
    found = {name: (config, is_open) for name, config, is_open in conn.execute(_DEFINERS)}
    assert sorted(found) == sorted(DEFINERS)
    for name, (config, is_open) in found.items():
        assert "search_path=pg_catalog, pg_temp" in config, name
        assert not is_open, name


def test_the_guide_names_all_that_runs_as_the_owner() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "servers.md").read_text("utf-8")
    (part,) = re.findall(r"^Eight of these functions run.*?\n\n", page, re.M | re.S)
    assert set(re.findall(r"`(\w+)`", part)) == set(DEFINERS)


def test_what_runs_as_the_owner_names_no_table_that_its_caller_may_have(
    conn: psycopg.Connection[Any],
) -> None:
    known = {row[0] for row in conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace"
    )}  # fmt: skip
    rows = conn.execute(
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
        " AND proname = ANY (%s)",
        [[*DEFINERS, "is_watching", "row_payload", "row_expression"]],
    ).fetchall()
    assert len(rows) == len(DEFINERS) + 3
    named = {(name, table) for name, body in rows for table in _RELATION.findall(_code(body))}
    loose = {(name, table) for name, table in named if table not in known | _VARIABLES}
    assert loose == {("watch_rows", "rota_new_rows"), ("watch_rows", "rota_old_rows")}


def test_no_function_names_a_table_that_its_caller_may_have(conn: psycopg.Connection[Any]) -> None:
    """What runs as the owner calls others, and any of them may be called by somebody with more
    rights: so this holds for all, with their own common table expressions."""
    known = {row[0] for row in conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace"
    )}  # fmt: skip
    loose = set()
    for name, body in conn.execute(
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
        " AND prosqlbody IS NULL"
    ):
        text = _code(body)
        own = set(_EXPRESSION.findall(text))
        loose |= {(name, match) for match in set(_TABLE.findall(text)) - own - known}
    # Transition tables; the last one's function runs as whoever has made the trigger.
    assert loose == {
        ("watch_rows", "rota_new_rows"),
        ("watch_rows", "rota_old_rows"),
        ("count_decisions", "decided"),
    }


_EXPRESSION = re.compile(r"\b([a-z_]+)\s*(?:\([a-z_, ]*\)\s*)?AS\s+(?:MATERIALIZED\s+)?\(")
_TABLE = re.compile(
    r"(?:(?<!DISTINCT )(?<!epoch )(?<!minute )\b(?:FROM|JOIN)"
    r"|\bINSERT\s+INTO|(?<!FOR )(?<!KEY )\bUPDATE)"
    r"\s+(?:ONLY\s+)?([a-z_]+)\b(?![.(])"
)
# Of plpgsql: SELECT ... INTO these.
_VARIABLES = {"part", "span", "found", "is_ours", "old_row", "new_row"}


def _code(body: str) -> str:
    return re.sub(r"--[^\n]*", "", body)
