"""A row by plain SQL that a constraint would refuse is refused in words before: what is wrong with
which row, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.database import Server

TABLES = (
    "jobs", "queues", "calendars", "schedules", "tenants", "schedule_templates", "bulk_actions",
    "run_views",
)  # fmt: skip
ROWS: dict[str, dict[str, str]] = {
    "jobs": {"name": "'bad'"},
    "queues": {"name": "'bad'"},
    "calendars": {"name": "'bad'", "definition": "'{}'"},
    "schedules": {"name": "'bad'", "job": "'work'", "cron": "'0 3 * * *'"},
    "tenants": {"name": "'bad'"},
    "schedule_templates": {"name": "'bad'", "cron": "'0 3 * * *'"},
    "bulk_actions": {
        "verb": "'cancel'", "filter": "'{\"job\": \"work\"}'", "actor": "'ada'",
        "created_at": "now()", "changed_at": "now()",
    },
    "run_views": {"name": "'bad'", "query": "'state=failed'", "created_by": "'ada'"},
}  # fmt: skip
LONG = "repeat('x', 201)"
# For each constraint of the tables that people write: what breaks it, and words of the refusal.
BREAKS: dict[str, tuple[dict[str, str], str]] = {
    "bulk_actions_delay": ({"delay_seconds": "5"}, "delay_seconds must be from 0 to"),
    "bulk_actions_filter": (
        {"filter": "'{\"system\": true}'"}, "at least one condition besides system"),
    "bulk_actions_most_check": ({"most": "0"}, "most must be more than 0, not 0"),
    "bulk_actions_payload": ({"payload": "'{}'"}, "only retry has one"),
    "bulk_actions_rate_check": ({"rate": "0"}, "rate must be from 0.01 to 1000000, not 0"),
    "bulk_actions_state_check": ({"state": "'x'"}, "state must be one of running, paused"),
    "bulk_actions_verb_check": ({"verb": "'x'"}, "verb must be one of retry, cancel, delete"),
    "run_views_name_check": ({"name": "''"}, "name must have 1 to 100 characters, not 0"),
    "run_views_query_check": ({"query": "''"}, "query must have 1 to 4000 characters, not 0"),
    "schedule_templates_description": (
        {"description": "repeat('x', 10001)"}, "at most 10000 characters"),
    "schedule_templates_name_check": ({"name": "''"}, "name must have 1 to 100 characters, not 0"),
    "calendars_definition_check": (
        {"definition": "'[]'"}, "definition must be a JSON object, not []"),
    "calendars_description": ({"description": "repeat('x', 10001)"}, "at most 10000 characters"),
    "calendars_name_check": ({"name": LONG}, "name must have 1 to 100 characters, not 201"),
    "jobs_backoff_check": ({"backoff": "'[]'"}, "backoff must be a JSON object"),
    "jobs_code_check": ({"code": "'3'"}, "code must be a JSON object, not 3"),
    "jobs_default_payload_check": (
        {"default_payload": "'7'"}, "default_payload must be a JSON object, not 7"),
    "jobs_delay": ({"delay_seconds": "-1"}, "delay_seconds -1 is not between 0 and"),
    "jobs_expires_in": ({"expires_in_seconds": "0"}, "expires_in_seconds"),
    "jobs_description": ({"description": "repeat('x', 10001)"}, "at most 10000 characters"),
    "jobs_edited_check": ({"edited": "'[]'"}, "edited must be a JSON object"),
    "jobs_event_filters": ({"event_filters": "'[]'"}, "event_filters must be a JSON object"),
    "jobs_events_check": ({"events": "'{NULL}'"}, "events of job"),
    "jobs_function": (
        {"function_name": "'public.f'"}, "only a job of kind sql has a function_name"),
    "jobs_kind_check": ({"kind": "'flow'"}, "kind must be python or sql, not flow"),
    "jobs_log_level": ({"log_level": "'loud'"}, "log_level must be one of debug, info"),
    "jobs_max_attempts_check": ({"max_attempts": "0"}, "max_attempts must be from 1 to 100, not 0"),
    "jobs_metadata_check": ({"metadata": "'[]'"}, "metadata must be a JSON object"),
    "jobs_name_check": ({"name": "''"}, "name must have 1 to 200 characters, not 0"),
    "jobs_priority_check": ({"priority": "10"}, "priority must be from 0 to 9, not 10"),
    "jobs_queue_check": ({"queue": "''"}, "queue must have 1 to 100 characters, not 0"),
    "jobs_retention": ({"retention": "'[]'"}, "retention must be a JSON object, not []"),
    "jobs_run_as": (
        {"kind": "'sql'", "function_name": "'public.steps'", "transaction_mode": "'none'",
         "run_as": "current_user"},
        "run_as and transaction_mode 'none' cannot be combined"),
    "jobs_sql_only": ({"run_as": "'somebody'"}, "only a job of kind sql has a run_as"),
    "jobs_timeout_seconds_check": ({"timeout_seconds": "0"}, "timeout_seconds 0 is less than"),
    "jobs_transaction_mode_check": (
        {"kind": "'sql'", "function_name": "'public.good'", "transaction_mode": "'half'"},
        "transaction_mode must be one of whole, none"),
    "queues_check": ({"is_paused": "true"}, "is_paused and paused_at must be set together"),
    "queues_description": ({"description": "repeat('x', 501)"}, "at most 500 characters"),
    "queues_max_waiting": ({"max_waiting": "-1"}, "max_waiting"),
    "queues_name_check": ({"name": "''"}, "name must have 1 to 100 characters, not 0"),
    "queues_when_full": ({"when_full": "'x'"}, "when_full must be refuse or drop_lowest"),
    "schedules_bounds": (
        {"start_at": "'2026-02-01'", "end_at": "'2026-01-01'"}, "is not after start_at 2026-02-01"),
    "schedules_catch_up_check": ({"catch_up": "'x'"}, "catch_up must be one of none, latest, all"),
    "schedules_catch_up_limit_check": ({"catch_up_limit": "0"}, "catch_up_limit must be at least"),
    "schedules_catch_up_window_seconds_check": (
        {"catch_up_window_seconds": "-1"}, "catch_up_window_seconds must be at least 0, not -1"),
    "schedules_code_check": ({"code": "'3'"}, "code must be a JSON object"),
    "schedules_description": (
        {"description": "repeat('x', 10001)"}, "at most 10000 characters"),
    "schedules_edited_check": ({"edited": "'3'"}, "edited must be a JSON object"),
    "schedules_every_from": ({"every_from": "'end'"}, "every_from 'end' requires interval_seconds"),
    "schedules_every_from_check": (
        {"every_from": "'x'", "cron": "NULL", "interval_seconds": "60"},
        "every_from must be one of start, end"),
    "schedules_fold_check": ({"fold": "'x'"}, "fold must be one of first, second, both"),
    "schedules_gap_check": ({"gap": "'x'"}, "gap must be one of run_after, skip"),
    "schedules_grace_seconds_check": ({"grace_seconds": "-1"}, "grace_seconds must be at least 0"),
    "schedules_init_check": (
        {"cron": "NULL", "init": "'x'"}, "init must be one of once, release, start"),
    "schedules_interval_seconds_check": (
        {"cron": "NULL", "interval_seconds": "0.5"}, "interval_seconds must be at least 1, not"),
    "schedules_jitter_seconds_check": ({"jitter_seconds": "-1"}, "jitter_seconds must be at least"),
    "schedules_max_attempts_check": ({"max_attempts": "0"}, "max_attempts must be from 1 to 100"),
    "schedules_max_concurrent_runs_check": (
        {"max_concurrent_runs": "0"}, "max_concurrent_runs must be at least 1"),
    "schedules_max_runs_check": ({"max_runs": "0"}, "max_runs must be at least 1, not 0"),
    "schedules_metadata_check": ({"metadata": "'[]'"}, "metadata must be a JSON object"),
    "schedules_name_check": ({"name": "''"}, "name must have 1 to 200 characters, not 0"),
    "schedules_on_closed_check": ({"on_closed": "'x'"}, "on_closed must be one of skip, next_day"),
    "schedules_origin_check": ({"origin": "'x'"}, "origin must be one of definition, code"),
    "schedules_overlap_check": ({"overlap": "'x'"}, "overlap must be one of skip, queue_one"),
    "schedules_pause": ({"pause_reason": "'x'"}, "paused_until and pause_reason require paused_at"),
    "schedules_pause_after_failures_check": (
        {"pause_after_failures": "0"}, "pause_after_failures must be at least 1"),
    "schedules_payload_check": ({"payload": "'[]'"}, "payload must be a JSON object"),
    "schedules_priority_check": ({"priority": "10"}, "priority must be from 0 to 9, not 10"),
    "schedules_queue_check": ({"queue": "''"}, "queue must have 1 to 100 characters, not 0"),
    "schedules_requires_check": ({"requires": "'{}'"}, "requires must be a JSON array"),
    "schedules_run_metadata_check": ({"run_metadata": "'[]'"}, "run_metadata must be a JSON obj"),
    "schedules_timeout_seconds_check": ({"timeout_seconds": "0"}, "timeout_seconds 0 is less than"),
    "schedules_timing": (
        {"interval_seconds": "60"}, "exactly one of cron, interval_seconds, run_at and init"),
    "tenants_description": ({"description": "repeat('x', 10001)"}, "at most 10000 characters"),
    "tenants_failed_retention_days": (
        {"failed_retention_days": "0"}, "failed_retention_days must be from 1 to 36500, not 0"),
    "tenants_max_bytes_per_day": ({"max_bytes_per_day": "-1"}, "must be from 0 to 10000000000000"),
    "tenants_max_runs_per_day": ({"max_runs_per_day": "-1"}, "must be from 0 to 1000000000000"),
    "tenants_max_waiting": ({"max_waiting": "-1"}, "max_waiting must be from 0 to 1000000000"),
    "tenants_metadata": ({"metadata": "'[]'"}, "metadata must be a JSON object"),
    "tenants_name": ({"name": "'a/b'"}, "no slash"),
    "tenants_pause": ({"pause_reason": "'x'"}, "require is_paused"),
    "tenants_retention_days": ({"retention_days": "0"}, "retention_days must be from 1 to 36500"),
    "tenants_weight": ({"weight": "0"}, "weight must be from 0.01 to 1000, not 0"),
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[psycopg.Connection[Any]]:
    """One database for all of these: each is rolled back."""
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO rota.jobs (name) VALUES ('work');"
            "CREATE PROCEDURE public.steps(payload jsonb) LANGUAGE plpgsql AS 'BEGIN END';"
            "CREATE FUNCTION public.good() RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';"
            "SELECT rota.allow_run_as(current_user)"
        )
        yield conn


def insert(conn: psycopg.Connection[Any], table: str, columns: dict[str, str]) -> psycopg.Error:
    write = (
        f"INSERT INTO rota.{table} ({', '.join(columns)}) VALUES ({', '.join(columns.values())})"
    )
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(write.encode())
    return caught.value


def test_every_constraint_has_its_words_here(shared: psycopg.Connection[Any]) -> None:
    query = """
        SELECT conname FROM pg_constraint
        WHERE conrelid = ANY (%s::regclass[]) AND contype = 'c' AND conname NOT LIKE '%%\\_value'
    """
    names = [f"rota.{table}" for table in TABLES]
    found = {name for (name,) in shared.execute(query, [names]).fetchall()}
    assert found == set(BREAKS)


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_a_row_that_breaks_a_constraint(shared: psycopg.Connection[Any], name: str) -> None:
    change, words = BREAKS[name]
    table = next(one for one in TABLES if name.startswith(f"{one}_"))
    error = insert(shared, table, ROWS[table] | change)
    assert error.sqlstate == "RO002", error
    assert words in str(error.diag.message_primary)
    assert "Failing row" not in str(error)


@pytest.mark.parametrize("table", TABLES)
def test_what_is_missing_is_named(shared: psycopg.Connection[Any], table: str) -> None:
    needed = shared.execute("SELECT name FROM rota.needed_columns(%s)", [f"rota.{table}"])
    for (column,) in needed.fetchall():
        if column == "id":
            continue
        error = insert(shared, table, ROWS[table] | {column: "NULL"})
        assert error.sqlstate == "RO002", (column, error)
        assert f"{column} is missing" in str(error.diag.message_primary)
        assert error.diag.message_hint


def test_an_update_is_told_too(shared: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error) as caught:
        shared.execute("UPDATE rota.jobs SET kind = 'other' WHERE name = 'work'")
    assert caught.value.diag.message_primary == 'job "work": kind must be python or sql, not other'
    assert caught.value.diag.constraint_name == "jobs_kind_check"


def test_the_constraints_stay_behind_the_words(shared: psycopg.Connection[Any]) -> None:
    write = "INSERT INTO rota.jobs (name, kind) VALUES ('bad', 'other')"
    with shared.transaction(force_rollback=True):
        shared.execute("ALTER TABLE rota.jobs DISABLE TRIGGER USER")
        with pytest.raises(psycopg.errors.CheckViolation):
            shared.execute(write)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("PST", "not an abbreviation"),
        ("america/new_york", "Did you mean America/New_York?"),
        ("utc", "Did you mean UTC?"),
        ("Mars/Phobos", "IANA name"),
        ("EST+3", "IANA name"),
        ("posixrules", "IANA name"),
        ("Factory", "IANA name"),
        ("right/Europe/Paris", "IANA name"),
    ],
)
def test_zones_that_python_does_not_know_are_refused(
    shared: psycopg.Connection[Any], zone: str, hint: str
) -> None:
    literal = sql.Literal(zone).as_string(shared)
    schedule = insert(shared, "schedules", ROWS["schedules"] | {"timezone": literal})
    definition = f"jsonb_build_object('timezone', {literal})"
    calendar = insert(shared, "calendars", ROWS["calendars"] | {"definition": definition})
    for error, noun in ((schedule, "schedule"), (calendar, "calendar")):
        assert str(error.diag.message_primary) == f'{noun} "bad": unknown time zone "{zone}"'
        assert hint in str(error.diag.message_hint)
    assert shared.execute("SHOW timezone").fetchone() != (zone,)


ZONES = (
    "UTC", "EST", "EST5EDT", "GB-Eire", "GMT0", "NZ-CHAT", "Etc/GMT+5",
    "America/Argentina/Buenos_Aires",
)  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_zones_by_their_names_are_taken(shared: psycopg.Connection[Any], zone: str) -> None:
    with shared.transaction(force_rollback=True):
        write = (
            "INSERT INTO rota.schedules (name, job, cron, timezone) VALUES ('z', 'work', %s, %s)"
        )
        shared.execute(write, ["0 3 * * *", zone])


def test_a_template_has_the_fields_of_a_cron_expression(shared: psycopg.Connection[Any]) -> None:
    error = insert(shared, "schedule_templates", {"name": "'bad'", "cron": "'nonsense'"})
    assert (
        error.diag.message_primary == 'template "bad": cron "nonsense" does not have 5 or 6 fields'
    )
