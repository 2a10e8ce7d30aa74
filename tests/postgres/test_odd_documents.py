"""What somebody wrote by hand into a document of a schedule, a job or a watch breaks no reader."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

import rota
from tests.odd_values import ODD
from tests.odd_world import fill, put_constraints_aside

_MARKS = ['{"cron": {"at": "nonsense"}}', '{"cron": {"at": "2026-02-31"}}', '{"cron": 1}']
_READERS = {
    ("schedules", "edited"): [
        "SELECT * FROM rota.schedule_overrides('nightly')",
        "SELECT rota.kept_fields(edited) FROM rota.schedules",
        "SELECT rota.still_edited('{}', edited, '{}') FROM rota.schedules",
    ],
    ("schedules", "requires"): [
        "SELECT rota.requirement_fault(s) FROM rota.schedules s",
        "SELECT * FROM rota.old_schedules(rota.now())",
    ],
    ("table_watches", "triggers"): ["SELECT * FROM rota.watches()"],
}


@pytest.mark.parametrize(("table", "column"), _READERS)
def test_no_odd_document_breaks_its_readers(
    conn: psycopg.Connection[Any], table: str, column: str
) -> None:
    fill(conn)
    conn.execute("CREATE TABLE public.orders (id integer)")
    conn.execute("SELECT rota.watch_table('public.orders')")
    put_constraints_aside(conn)
    conn.execute("SET session_replication_role = replica")
    write = sql.SQL("UPDATE rota.{} SET {} = %s::jsonb").format(
        sql.Identifier(table), sql.Identifier(column)
    )
    for value in [*ODD["jsonb"], *_MARKS]:
        assert conn.execute(write, [value]).rowcount > 0
        for reader in _READERS[table, column]:
            conn.execute(sql.SQL(reader))  # type: ignore[arg-type]


def test_an_edit_without_a_time_is_listed(conn: psycopg.Connection[Any], app: rota.App) -> None:
    fill(conn)
    conn.execute("SET session_replication_role = replica")
    conn.execute("UPDATE rota.schedules SET edited = %s", [_MARKS[0]])
    (found,) = app.schedules.sync.overrides("nightly")
    assert (found.field, found.changed_at) == ("cron", None)
