"""What plain SQL may write into Rota's tables."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.odd_values import columns, odd_writes

GUARDED = [
    "settings", "workers", "cancel_requests", "backfills", "backfill_times", "jobs",
    "queues", "calendars", "schedules", "bulk_actions",
]  # fmt: skip
TOLD = ["jobs", "queues", "calendars", "schedules"]
_ROWS = """
INSERT INTO rota.jobs (name) VALUES ('work');
INSERT INTO rota.queues (name, is_paused, paused_at) VALUES ('mail', true, rota.now());
INSERT INTO rota.calendars (name, definition) VALUES ('holidays', '{}');
INSERT INTO rota.schedules (name, job, cron) VALUES ('nightly', 'work', '0 3 * * *');
INSERT INTO rota.schedules (name, job, run_at) VALUES ('single', 'work', rota.now());
SELECT rota.enqueue('work', key => 'k', key_seconds => 1);
SELECT rota.register_worker('w', 'h', 1, '', '{}', '{work}', 1, 60);
INSERT INTO rota.cancel_requests (run_id, worker, attempt, requested_by) VALUES (1, 1, 1, 'me');
INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by)
VALUES (1, rota.now(), rota.now(), 'me');
INSERT INTO rota.backfill_times VALUES (1, 1, rota.now(), 1);
"""
_IS_KEPT = """
SELECT coalesce(bool_and(c.convalidated), false) FROM pg_constraint c
WHERE c.conrelid = %s::regclass AND c.conname = %s
"""


@pytest.mark.parametrize("table", GUARDED)
def test_every_column_of_a_guarded_table_has_its_rule(
    conn: psycopg.Connection[Any], table: str
) -> None:
    """A migration that adds a column calls guard_values again."""
    rules = conn.execute("SELECT name FROM rota.value_rules(%s)", [f"rota.{table}"]).fetchall()
    for (name,) in rules:
        kept = conn.execute(_IS_KEPT, [f"rota.{table}", f"{table}_{name}_value"]).fetchone()
        assert kept == (True,), f"{table}.{name}"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((column, value) for column in ("run_at", "expires_at", "scheduled_for")
          for value in ("infinity", "-infinity", "0001-01-01 00:00Z", "9999-12-31 00:00Z")),
        *(("timeout_seconds", value) for value in ("NaN", "infinity", "0", "-1", "1e10")),
        *(("key_seconds", value) for value in ("NaN", "-infinity", "-1")),
        *(("progress", value) for value in ("NaN", "infinity", "-0.1", "1.1")),
    ],
)  # fmt: skip
def test_odd_values_of_an_open_run_are_refused(
    conn: psycopg.Connection[Any], column: str, value: str
) -> None:
    conn.execute(_ROWS)
    write = sql.SQL("UPDATE rota.open_runs SET {} = {}").format(sql.Identifier(column), value)
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(write)


@pytest.mark.parametrize("table", TOLD)
def test_odd_values_are_refused_in_words(conn: psycopg.Connection[Any], table: str) -> None:
    conn.execute(_ROWS)
    names = {
        name for (name,) in conn.execute("SELECT name FROM rota.value_rules(%s)", [f"rota.{table}"])
    }
    for column in columns(conn, table):
        if column.name not in names:
            continue
        refused = [_refusal(conn, write) for write in odd_writes(column)]
        errors = [error for error in refused if error is not None and error.sqlstate == "RO002"]
        assert errors, column
        assert any(str(error).startswith(f"{column.name} of {table[:-1]}") for error in errors)


def _refusal(conn: psycopg.Connection[Any], write: sql.Composed) -> psycopg.Error | None:
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(write)
    except psycopg.Error as error:
        return error
    return None


def test_a_pause_without_end_is_told_how_to_be_one(conn: psycopg.Connection[Any]) -> None:
    conn.execute(_ROWS)
    with pytest.raises(psycopg.Error, match="paused_until of schedule") as caught:
        conn.execute("SELECT rota.pause_schedule('nightly', until => 'infinity')")
    assert caught.value.sqlstate == "RO002"
    assert "omit it for none" in str(caught.value)


def test_the_clock_is_not_set_to_no_instant(conn: psycopg.Connection[Any]) -> None:
    for at in ("infinity", "10000-01-01", "0044-03-15 BC"):
        with pytest.raises(psycopg.Error, match="the clock cannot be set to") as caught:
            conn.execute("SELECT rota.set_clock(%s)", [at])
        assert caught.value.sqlstate == "RO002"
