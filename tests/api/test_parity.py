"""Everything that the command line can do, the API can, and the other way round."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer.main

import rota
from rota.api import create_api
from rota.cli.program import program
from tests.api.conftest import TOKEN
from tests.docs.test_cli_docs import commands, flags

# By command: the operations that do the same.
SAME = {
    "why": "why",
    "find": "find",
    "stats": "get_stats",
    "trend": "get_trend",
    "top": "get_overview stream",
    "attention": "get_attention",
    "doctor": "get_doctor",
    "runs list": "list_runs",
    "runs show": "get_run get_run_details list_attempts get_attempt",
    "runs cancel": "cancel_run cancel_runs start_bulk_action preview_bulk_action",
    "runs retry": "retry_run retry_runs start_bulk_action preview_bulk_action",
    "runs delete": "delete_run delete_runs start_bulk_action preview_bulk_action",
    "runs enqueue": "enqueue_run get_run",
    "views list": "list_views",
    "views save": "save_view",
    "views delete": "delete_view",
    "runs handle": "handle_run",
    "runs reopen": "reopen_run",
    "errors list": "list_errors",
    "errors show": "get_error",
    "errors handle": "handle_error",
    "errors reopen": "reopen_error",
    "bulk list": "list_bulk_actions",
    "bulk show": "get_bulk_action",
    "bulk pause": "pause_bulk_action",
    "bulk resume": "resume_bulk_action",
    "bulk stop": "stop_bulk_action",
    "bulk throttle": "throttle_bulk_action",
    "logs search": "search_logs",
    "logs tail": "tail_logs",
    "logs show": "list_run_logs",
    "jobs create": "create_job",
    "jobs functions": "list_functions",
    "schedules list": "list_schedules",
    "schedules show": "get_schedule preview_schedule list_occurrences list_overrides",
    "schedules create": "create_schedule",
    "schedules update": "update_schedule",
    "schedules delete": "delete_schedule",
    "schedules enable": "enable_schedule",
    "schedules disable": "disable_schedule",
    "schedules pause": "pause_schedule",
    "schedules resume": "resume_schedule",
    "schedules trigger": "trigger_schedule",
    "schedules reschedule": "reschedule",
    "schedules preview": "preview_schedule preview_timing",
    "schedules backfill": "backfill_schedule",
    "schedules history": "list_occurrences",
    "schedules edits": "list_edits",
    "schedules revert": "revert_schedule",
    "schedules manual": "list_manual_runs",
    "schedules simulate": "simulate",
    "templates list": "list_templates get_template",
    "templates set": "set_template",
    "templates remove": "remove_template",
    "calendars list": "list_calendars",
    "calendars show": "get_calendar",
    "calendars create": "create_calendar",
    "calendars update": "update_calendar",
    "calendars delete": "delete_calendar",
    "queues list": "list_queues",
    "queues show": "get_queue",
    "queues pause": "pause_queue",
    "queues resume": "resume_queue",
    "queues set": "set_queue",
    "queues reset": "reset_queue",
    "queues clear": "clear_queue",
    "tenants list": "list_tenants",
    "tenants show": "get_tenant get_tenant_stats",
    "tenants set": "set_tenant",
    "tenants reset": "reset_tenant",
    "tenants delete": "delete_tenant",
    "tenants export": "export_tenant",
    "tenants pause": "pause_tenant",
    "tenants resume": "resume_tenant",
    "limits list": "list_limits",
    "limits show": "get_limit",
    "limits set": "set_limit",
    "limits remove": "remove_limit",
    "limits unblock": "unblock_limit",
    "workers list": "list_workers",
    "workers show": "get_worker",
    "workers drain": "drain_worker",
    "workers stop": "stop_worker",
    "workers resume": "resume_worker",
    "jobs list": "list_jobs",
    "jobs show": "get_job",
    "jobs update": "update_job",
    "jobs enable": "enable_job",
    "jobs disable": "disable_job",
    "jobs rename": "rename_job",
    "jobs delete": "delete_job",
    "jobs plan": "plan_definitions",
    "jobs sync": "sync_definitions",
    "events emit": "emit_event",
    "events list": "list_events",
    "events show": "get_event",
    "events bindings": "list_event_bindings",
    "events replay": "replay_events",
    "watches add": "add_watch",
    "watches remove": "remove_watch",
    "watches list": "list_watches get_watch",
    "events refusals": "list_refusals",
    "audit list": "list_audit",
    "audit show": "get_audit_entry",
    "retention run": "plan_retention run_retention",
    "cleanup list": "list_cleanups",
    "cleanup show": "get_cleanup",
    "cleanup add": "add_cleanup list_cleanup_tables",
    "cleanup add-recipe": "add_cleanup_recipe",
    "cleanup recipes": "list_cleanup_recipes",
    "cleanup remove": "remove_cleanup",
    "cleanup run": "run_cleanup",
    "cleanup plan": "plan_cleanup",
    "config list": "get_config",
    "config get": "get_config",
}
# What only makes sense where it is typed; docs/reference/api.md says why.
CLI_ONLY = {
    "", "dev", "worker", "server", "migrate", "grant", "psql", "bench", "config set",
    "config unset", "config init",
}  # fmt: skip
# What a command has in each of its answers: whether one lives, and what time it is.
API_ONLY = {"health", "ready", "metrics", "get_clock"}

# How the output looks, or how a person is asked: a program needs none of it.
MANNERS = {"--json", "--absolute", "--display-timezone", "--watch", "--yes", "--interval", "--rows",
           "--once", "--app", "--detach"}  # fmt: skip
# The same under another name: by the words of HTTP, or because the shell has shorter ones.
WORDS = {
    "--sql": {"function_name"},
    "--after": {"cursor", "after"}, "--version": {"if-match"}, "--noun": {"object_type"},
    "--subject": {"object_id"}, "--run": {"run_id"}, "--grep": {"text"}, "-n": {"lines"},
    "--failing": {"failing_seconds"}, "--logs": {"log_lines"}, "--step": {"step_seconds"},
    "--timeout": {"timeout_seconds", "wait_seconds"}, "--tag": {"tag", "tags"},
    "--force-all": {"force"}, "--wait": {"wait_seconds"},
    "--attempt-timeout": {"timeout_seconds"}, "--key-keep": {"key_seconds"},
    "--key-period": {"period_seconds"}, "--id": {"ids"}, "--no-manual": {"manual"},
    "--group": {"error_group"}, "--payload-field": {"payload_field", "payload_fields"},
    "--payload": {"payload", "default_payload"}, "--state": {"state", "states", "status"},
    "--for": {"seconds"},
    "--dry-run": {"dry_run", "plan_retention"},
    "--job": {"job", "jobs"},
    "--key": {"key", "value"},
}  # fmt: skip
# Of one command alone.
LOCAL = {
    "logs search": {"--patience"},  # the API's searches are short, and go on by their cursor
    "doctor": {"--all"},  # the API's answer always has what is fine
    "tenants export": {"--to", "--force"},  # the answer is the file
    "config get": {"--reveal"},  # secrets stay where they are
}


@cache
def every_command() -> dict[str, Any]:
    found = commands(typer.main.get_command(program()))
    return {path.removeprefix("rota").strip(): command for path, command in found}


@cache
def operations() -> dict[str, set[str]]:
    """The names that each operation takes, in path, query, headers and body."""
    described = create_api(rota.App(embedded=False, server={"token": TOKEN})).openapi()
    schemas = described["components"]["schemas"]
    return {
        operation["operationId"]: {
            *(one["name"].lower() for one in operation.get("parameters", [])),
            *_body(operation, schemas),
            operation["operationId"],
        }
        for methods in described["paths"].values()
        for operation in methods.values()
    }


def _body(operation: dict[str, Any], schemas: dict[str, Any]) -> set[str]:
    if "requestBody" not in operation:
        return set()
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    found = next(one for one in (schema, *schema.get("anyOf", [])) if "$ref" in one)
    names = set(schemas[found["$ref"].rsplit("/", 1)[1]]["properties"])
    return names | (set(schemas["RunFilters"]["properties"]) if "filter" in names else set())


def test_every_command_has_operations_and_every_operation_a_command() -> None:
    assert set(every_command()) == set(SAME) | CLI_ONLY
    told = {name for names in SAME.values() for name in names.split()}
    assert set(operations()) == told | API_ONLY


def test_what_a_command_takes_its_operations_take_too() -> None:
    known, missing = operations(), set()
    for path, names in SAME.items():
        takes = set().union(*(known[name] for name in names.split()))
        for flag in flags(every_command()[path]):
            if not flag.startswith("-") or flag in MANNERS | LOCAL.get(path, set()):
                continue
            plain = flag.strip("-").replace("-", "_")
            words = WORDS.get(flag, {plain, f"{plain}_seconds", plain.removeprefix("no_")})
            if not words & takes:
                missing.add(f"{path} {flag}")
    assert missing == set()


def test_what_a_list_filters_by_the_command_does_too() -> None:
    known, missing = operations(), set()
    for path, names in SAME.items():
        if path.split()[-1] not in ("list", "search", "tail", "history"):
            continue
        has = set(flags(every_command()[path])) | {"--text", "--after", "--limit", "--name"}
        takes = set().union(*(known[name] - {name} for name in names.split()))
        for word in takes:
            same = {f"--{word.replace('_', '-')}"}
            same |= {flag for flag, words in WORDS.items() if word in words}
            if not same & has and word != "last-event-id":
                missing.add(f"{path} {word}")
    assert missing == set()
