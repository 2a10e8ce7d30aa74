"""docs/reference/sql.md names every function and column that users may rely on, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
PUBLIC = {
    "enqueue", "enqueue_run", "enqueue_many", "enqueue_batch", "cancel_run", "retry_run",
    "drain_worker", "resume_worker", "grant_worker",
    "delete_run", "act_on_runs", "start_bulk_action", "pause_bulk_action", "resume_bulk_action",
    "stop_bulk_action", "throttle_bulk_action", "save_run_view", "delete_run_view",
    "handle_run", "reopen_run", "handle_error", "reopen_error",
    "pause_queue", "resume_queue", "set_job_enabled", "now", "set_clock", "pause_schedule",
    "resume_schedule", "enable_schedule", "disable_schedule", "set_schedule_enabled",
    "trigger_schedule", "reschedule", "delete_schedule",
    "set_limit", "remove_limit", "unblock_limit", "admit_runs",
    "set_queue", "put_queue", "reset_queue",
    "set_tenant", "pause_tenant", "resume_tenant", "remove_tenant", "check_cap", "check_quota",
    "cleanup", "allow_run_as", "delete_job", "emit", "emit_many", "fits", "replay_events",
    "watch_table", "unwatch_table", "watches", "expect_version", "why",
}  # fmt: skip
RELATIONS = [
    "runs", "attempts", "jobs", "queues", "workers", "schedules", "occurrences", "calendars",
    "schedule_templates", "schedule_status", "job_status", "logs", "dead_letters", "reasons",
    "errors", "events", "limits", "tenants",
]  # fmt: skip


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"sql.md has no section {title!r}"
    return found[1]


def functions(conn: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """Names of all functions in the schema, with their arguments."""
    query = """
        SELECT proname, coalesce(proargnames[1:pronargs], '{}') FROM pg_proc
        WHERE pronamespace = 'rota'::regnamespace AND prorettype <> 'trigger'::regtype
    """
    return dict(conn.execute(query).fetchall())


def test_every_public_function_has_an_entry_and_every_entry_a_function(
    conn: psycopg.Connection[Any],
) -> None:
    entries = re.findall(r"^### `rota\.(\w+)`", section("Functions"), re.MULTILINE)
    assert sorted(entries) == sorted(PUBLIC)
    assert set(functions(conn)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"enqueue_run"}))
def test_entries_show_all_arguments(conn: psycopg.Connection[Any], name: str) -> None:
    shown = re.search(rf"rota\.{name}\((.*?)\) RETURNS", section("Functions"), re.DOTALL)
    assert shown
    names = [part.split()[0] for part in re.split(r",\s*", shown[1].strip()) if part]
    assert names == functions(conn)[name]


def test_every_other_function_is_listed_as_internal(conn: psycopg.Connection[Any]) -> None:
    listed = re.findall(r"`(\w+)`", section("Internal functions"))
    assert sorted(listed) == sorted(set(functions(conn)) - PUBLIC)


@pytest.mark.parametrize("name", RELATIONS)
def test_every_column_has_an_entry_and_every_entry_a_column(
    conn: psycopg.Connection[Any], name: str
) -> None:
    query = """
        SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
    """
    is_view = name in (
        "runs",
        "attempts",
        "occurrences",
        "dead_letters",
        "errors",
    ) or name.endswith("_status")
    kind = "View" if is_view else "Table"
    rows = re.findall(
        r"^\| `(\w+)` \| ([\w\[\] ]+) \|", section(f"{kind} `rota.{name}`"), re.MULTILINE
    )
    actual = [
        (column, type_.replace("timestamp with time zone", "timestamptz"))
        for column, type_ in conn.execute(query, [f"rota.{name}"]).fetchall()
    ]
    assert rows == actual


def test_every_error_code_is_explained(conn: psycopg.Connection[Any]) -> None:
    source = "SELECT string_agg(prosrc, '') FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
    (text,) = conn.execute(source).fetchone() or ("",)
    raised = set(re.findall(r"'(RO\d{3})'", text))
    explained = set(re.findall(r"^\| `(RO\d{3})`", section("Errors"), re.MULTILINE))
    assert explained == raised
