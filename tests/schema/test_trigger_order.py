"""What happens before and after a row is written stands in a function, in its order, and not in the
names of triggers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server

# Row-level triggers of Rota's own tables, by event. Those of constraints wait for the end of the
# transaction; the guards of values only refuse: what is missing first, what breaks a rule last.
_TRIGGERS = """
SELECT c.relname, CASE WHEN (t.tgtype & 2) > 0 THEN 'before' ELSE 'after' END, e.event,
       array_agg(t.tgname ORDER BY t.tgname)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
CROSS JOIN (VALUES (4, 'insert'), (8, 'delete'), (16, 'update')) AS e (bit, event)
WHERE c.relnamespace = 'rota'::regnamespace AND NOT c.relispartition AND NOT t.tgisinternal
  AND (t.tgtype & 1) > 0 AND (t.tgtype & e.bit) > 0 AND t.tgconstraint = 0
  AND p.proname NOT IN ('refuse_row', 'refuse_values')
GROUP BY 1, 2, 3 HAVING count(*) > 1
"""
_GUARDS = """
SELECT DISTINCT t.tgname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE p.proname IN ('refuse_row', 'refuse_values') ORDER BY 1
"""


@pytest.fixture(scope="module")
def built(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        yield conn


def test_a_table_has_one_trigger_of_a_time_and_event(built: psycopg.Connection[Any]) -> None:
    assert built.execute(_TRIGGERS).fetchall() == []


def test_guards_come_before_and_after_all_others(built: psycopg.Connection[Any]) -> None:
    guards = [name for (name,) in built.execute(_GUARDS).fetchall()]
    assert guards == ["a_missing", "a_values", "z_rules"]
    others = built.execute(
        "SELECT DISTINCT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE c.relnamespace = 'rota'::regnamespace AND NOT t.tgisinternal"
    ).fetchall()
    assert all("a_values" < name < "z_rules" for (name,) in others if name not in guards)
