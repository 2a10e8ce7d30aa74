"""What every function of the schema has, so that no migration forgets it."""

from __future__ import annotations

from typing import Any

import psycopg

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
    assert {"now", "live_workers", "log_words", "after"} <= whole
