"""Every operation: what it answers when all is well, to bad input, when a thing is not there, and
when its state does not allow it; every POST sent twice; every edit with a version of yesterday; and
what the audit knows of all that. One story on one database, so that it costs seconds. Bad input to
declared operations, and targets that are not there, are in tests/operations/test_faces.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

import rota
from rota.api import create_api
from rota.operations.registry import NOUNS, commands_of, operations_of
from tests.api.conftest import HEADERS, TOKEN, client_of, problem
from tests.sql_engine import Engine

WHY = {"reason": "why"}
BULK = {"verb": "cancel", "filter": {"job": "send"}}
CLOSED = {"cron": "@daily", "calendar": "none"}
DAYS = {"payload": {"days": 1}}
WEEK = {"from_at": "2026-01-05T00:00:00Z", "until_at": "2026-01-10T00:00:00Z"}
OFFICE = {"name": "office", "definition": {"weekends": True}, **WHY}
DIGEST = {"name": "digest", "job": "clean", "cron": "0 8 * * 1-5", "calendar": "office", **WHY}
RUN = {"job": "send", "payload": {"user_id": 7}}
RECIPE = {"recipe": "expired_auth_cleanup", **WHY}
CLEANUP = {"table": "magic_links", "column": "expires_at", "older_than_seconds": 60, **WHY}
STATUS = {"bad": (422,), "missing": (404,), "wrong": (409,), "stale": (412,), "ok": (200, 201)}


@dataclass(frozen=True)
class Step:
    operation: str
    kind: str
    method: str
    path: str
    body: Any = None


def step(operation: str, kind: str, request: str, body: Any = None) -> Step:
    method, _, path = request.partition(" ")
    return Step(operation, kind, method, path, body)


# In this order: each line meets what those before it have left.
STORY = [
    step("create_calendar", "ok", "POST /calendars", OFFICE),
    step("create_calendar", "wrong", "POST /calendars", OFFICE),
    step("list_calendars", "ok", "GET /calendars?order=changed"),
    step("list_calendars", "bad", "GET /calendars?order=size"),
    step("get_calendar", "ok", "GET /calendars/office"),
    step("get_calendar", "bad", "GET /calendars/office?days=1"),
    step("get_calendar", "missing", "GET /calendars/none"),
    step("update_calendar", "ok", "PATCH /calendars/office", {"description": "d", **WHY}),
    step("update_calendar", "stale", "PATCH /calendars/office", {"description": "e"}),
    step("set_template", "ok", "PUT /templates/mine", {"cron": "@daily", **WHY}),
    step("set_template", "bad", "PUT /templates/mine", {"cron": "no"}),
    step("set_template", "stale", "PUT /templates/mine", {"cron": "@hourly"}),
    step("set_template", "missing", "PUT /templates/none", {"cron": "@hourly"}),
    step("get_template", "ok", "GET /templates/mine"),
    step("get_template", "bad", "GET /templates/mine?days=1"),
    step("get_template", "missing", "GET /templates/none"),
    step("list_templates", "ok", "GET /templates?limit=2"),
    step("list_templates", "bad", "GET /templates?cursor=x"),
    step("remove_template", "stale", "DELETE /templates/mine"),
    step("remove_template", "bad", "DELETE /templates/mine?force=true"),
    step("remove_template", "ok", "DELETE /templates/mine?reason=why"),
    step("remove_template", "missing", "DELETE /templates/mine"),
    step("create_schedule", "ok", "POST /schedules", DIGEST),
    step("create_schedule", "wrong", "POST /schedules", DIGEST),
    step("create_schedule", "bad", "POST /schedules", DIGEST | {"name": "x", "cron": "no"}),
    step("create_schedule", "missing", "POST /schedules", DIGEST | {"name": "x", "job": "none"}),
    step("list_schedules", "ok", "GET /schedules?order=next&metadata=team:none"),
    step("list_schedules", "bad", "GET /schedules?state=eaten"),
    step("get_schedule", "ok", "GET /schedules/digest"),
    step("list_overrides", "ok", "GET /schedules/digest/overrides"),
    step("list_overrides", "bad", "GET /schedules/digest/overrides?odd=1"),
    step("list_overrides", "missing", "GET /schedules/none/overrides"),
    step("get_schedule", "bad", "GET /schedules/digest?tenants=a"),
    step("get_schedule", "missing", "GET /schedules/none"),
    step("update_schedule", "ok", "PATCH /schedules/digest", {"priority": 1, **WHY}),
    step("update_schedule", "bad", "PATCH /schedules/digest", {"priority": 11}),
    step("update_schedule", "missing", "PATCH /schedules/none", {"priority": 1}),
    step("update_schedule", "stale", "PATCH /schedules/digest", {"priority": 1}),
    step("list_edits", "ok", "GET /schedules/digest/edits?limit=1"),
    step("list_edits", "bad", "GET /schedules/digest/edits?cursor=x"),
    step("list_edits", "missing", "GET /schedules/none/edits"),
    step("revert_schedule", "bad", "POST /schedules/digest/revert", {"entry_id": 0}),
    step("revert_schedule", "missing", "POST /schedules/none/revert", {"entry_id": "{edit}"}),
    step("revert_schedule", "stale", "POST /schedules/digest/revert", {"entry_id": "{edit}"}),
    step("revert_schedule", "ok", "POST /schedules/digest/revert", {"entry_id": "{edit}", **WHY}),
    step("enable_schedule", "ok", "POST /schedules/digest/enable"),
    step("disable_schedule", "ok", "POST /schedules/digest/disable", WHY),
    step("disable_schedule", "ok", "POST /schedules/digest/disable"),
    step("list_edits", "ok", "GET /schedules/digest/edits"),
    step("revert_schedule", "wrong", "POST /schedules/digest/revert", {"entry_id": "{edit}"}),
    step("enable_schedule", "ok", "POST /schedules/digest/enable", WHY),
    step("pause_schedule", "ok", "POST /schedules/digest/pause", {"until": "60s", **WHY}),
    step("resume_schedule", "ok", "POST /schedules/digest/resume", WHY),
    step("resume_schedule", "ok", "POST /schedules/digest/resume"),
    step("trigger_schedule", "ok", "POST /schedules/digest/trigger", DAYS | WHY),
    step("list_manual_runs", "ok", "GET /schedules/digest/manual?limit=1"),
    step("list_manual_runs", "bad", "GET /schedules/digest/manual?limit=0"),
    step("list_manual_runs", "missing", "GET /schedules/none/manual"),
    step("reschedule", "ok", "POST /schedules/digest/reschedule", {"at": "60s", **WHY}),
    step("backfill_schedule", "ok", "POST /schedules/digest/backfill", {**WEEK, **WHY}),
    step("backfill_schedule", "bad", "POST /schedules/digest/backfill", WEEK | {"rate": 0}),
    step("backfill_schedule", "missing", "POST /schedules/none/backfill", WEEK),
    step("preview_schedule", "ok", "GET /schedules/digest/preview?count=2"),
    step("preview_schedule", "bad", "GET /schedules/digest/preview?viewer_zone=Mars"),
    step("preview_schedule", "missing", "GET /schedules/none/preview"),
    step("list_occurrences", "ok", "GET /schedules/digest/occurrences?order=oldest"),
    step("list_occurrences", "bad", "GET /schedules/digest/occurrences?decision=eaten"),
    step("list_occurrences", "missing", "GET /schedules/none/occurrences"),
    step("preview_timing", "ok", "POST /timings/preview", {"cron": "@daily"}),
    step("preview_timing", "bad", "POST /timings/preview", {"cron": "@daily", "run_at": "now"}),
    step("preview_timing", "missing", "POST /timings/preview", CLOSED),
    step("simulate", "ok", "GET /simulation?days=2"),
    step("simulate", "bad", "GET /simulation?days=0"),
    step("delete_calendar", "wrong", "DELETE /calendars/office"),
    step("delete_schedule", "stale", "DELETE /schedules/digest"),
    step("delete_schedule", "wrong", "DELETE /schedules/rota.prune_runs"),
    step("delete_schedule", "ok", "DELETE /schedules/digest?cancel_waiting=true&reason=why"),
    step("delete_calendar", "stale", "DELETE /calendars/office"),
    step("delete_calendar", "ok", "DELETE /calendars/office?reason=why"),
    step("enqueue_run", "ok", "POST /runs", RUN | {"key": "k"}),
    step("enqueue_run", "wrong", "POST /runs", RUN | {"key": "k", "on_conflict": "raise"}),
    step("enqueue_run", "bad", "POST /runs", RUN | {"priority": "first"}),
    step("enqueue_run", "missing", "POST /runs", {"job": "none"}),
    step("list_runs", "ok", "GET /runs?state=queued&order=oldest"),
    step("list_runs", "bad", "GET /runs?state=done"),
    step("get_run", "ok", "GET /runs/{run}?wait_seconds=0.01"),
    step("get_run", "bad", "GET /runs/{run}?wait_seconds=61"),
    step("get_run", "missing", "GET /runs/999"),
    step("get_run_details", "ok", "GET /runs/{run}/details"),
    step("get_run_details", "bad", "GET /runs/{run}/details?log_lines=-1"),
    step("get_run_details", "missing", "GET /runs/999/details"),
    step("list_attempts", "ok", "GET /runs/{run}/attempts"),
    step("list_attempts", "missing", "GET /runs/999/attempts"),
    step("list_attempts", "bad", "GET /runs/{run}/attempts?limit=0"),
    step("get_attempt", "ok", "GET /runs/{dead}/attempts/1"),
    step("get_attempt", "missing", "GET /runs/{run}/attempts/999"),
    step("get_attempt", "bad", "GET /runs/{run}/attempts/0"),
    step("list_run_logs", "ok", "GET /runs/{run}/logs?attempt=1"),
    step("list_run_logs", "bad", "GET /runs/{run}/logs?attempt=0"),
    step("list_run_logs", "missing", "GET /runs/999/logs"),
    step("retry_run", "wrong", "POST /runs/{run}/retry"),
    step("delete_run", "wrong", "DELETE /runs/{run}"),
    step("cancel_run", "ok", "POST /runs/{run}/cancel", WHY),
    step("cancel_run", "wrong", "POST /runs/{run}/cancel"),
    step("retry_run", "bad", "POST /runs/{run}/retry", {"payload": {"user_id": "x"}}),
    step("retry_run", "ok", "POST /runs/{run}/retry", {"payload": {"user_id": 8}, **WHY}),
    step("retry_run", "missing", "POST /runs/999/retry"),
    step("cancel_runs", "bad", "POST /runs/cancel", {}),
    step("retry_runs", "ok", "POST /runs/retry", {"ids": ["{run}", 999], **WHY}),
    step("retry_runs", "bad", "POST /runs/retry", {"ids": [0]}),
    step("cancel_runs", "ok", "POST /runs/cancel", {"ids": ["{run}"], **WHY}),
    step("delete_runs", "ok", "POST /runs/delete", {"ids": ["{run}"], "dry_run": True}),
    step("delete_runs", "bad", "POST /runs/delete", {"filter": {"state": "failed"}}),
    step("preview_bulk_action", "ok", "POST /bulk/preview", BULK),
    step("preview_bulk_action", "bad", "POST /bulk/preview", {"verb": "cancel", "filter": {}}),
    step("start_bulk_action", "ok", "POST /bulk", BULK | {"rate": 5, **WHY}),
    step("start_bulk_action", "bad", "POST /bulk", BULK | {"verb": "burn"}),
    step("list_bulk_actions", "ok", "GET /bulk?state=running"),
    step("list_bulk_actions", "bad", "GET /bulk?state=burning"),
    step("get_bulk_action", "ok", "GET /bulk/1"),
    step("get_bulk_action", "bad", "GET /bulk/0"),
    step("get_bulk_action", "missing", "GET /bulk/99"),
    step("throttle_bulk_action", "ok", "POST /bulk/1/throttle", {"rate": None, **WHY}),
    step("pause_bulk_action", "ok", "POST /bulk/1/pause", WHY),
    step("resume_bulk_action", "ok", "POST /bulk/1/resume", WHY),
    step("stop_bulk_action", "ok", "POST /bulk/1/stop", WHY),
    step("pause_bulk_action", "wrong", "POST /bulk/1/pause"),
    step("resume_bulk_action", "wrong", "POST /bulk/1/resume"),
    step("stop_bulk_action", "wrong", "POST /bulk/50/stop"),
    step("throttle_bulk_action", "wrong", "POST /bulk/1/throttle", {"rate": 1}),
    step("save_view", "ok", "PUT /views/today", {"query": "state=failed", **WHY}),
    step("list_views", "ok", "GET /views"),
    step("list_views", "bad", "GET /views?x=1"),
    step("delete_view", "ok", "DELETE /views/today?reason=why"),
    step("handle_run", "ok", "POST /runs/{dead}/handle", WHY),
    step("handle_run", "wrong", "POST /runs/{dead}/handle"),
    step("reopen_run", "ok", "POST /runs/{dead}/reopen", WHY),
    step("reopen_run", "wrong", "POST /runs/{dead}/reopen"),
    step("list_errors", "ok", "GET /errors?standing=new&order=most"),
    step("list_errors", "bad", "GET /errors?standing=odd"),
    step("get_error", "ok", "GET /errors/{group}"),
    step("get_error", "bad", "GET /errors/{group}?since=yesterday"),
    step("get_error", "missing", "GET /errors/none"),
    step("handle_error", "ok", "POST /errors/{group}/handle", WHY),
    step("handle_error", "wrong", "POST /errors/{group}/handle"),
    step("reopen_error", "ok", "POST /errors/{group}/reopen", WHY),
    step("reopen_error", "wrong", "POST /errors/{group}/reopen"),
    step("why", "ok", "GET /why?subject={dead}"),
    step("why", "bad", "GET /why?subject=send&kind=ghost"),
    step("why", "missing", "GET /why?subject=999"),
    step("delete_run", "ok", "DELETE /runs/{run}?reason=why"),
    step("search_logs", "ok", "GET /logs?text=hello"),
    step("search_logs", "bad", "GET /logs?level=loud"),
    step("pause_queue", "ok", "POST /queues/mail/pause", WHY),
    step("pause_queue", "ok", "POST /queues/mail/pause"),
    step("list_queues", "ok", "GET /queues?paused=true&order=longest"),
    step("list_queues", "bad", "GET /queues?paused=perhaps"),
    step("get_queue", "ok", "GET /queues/mail"),
    step("get_queue", "bad", "GET /queues/mail?jobs=1"),
    step("get_queue", "missing", "GET /queues/none"),
    step("resume_queue", "ok", "POST /queues/mail/resume", WHY),
    step("resume_queue", "ok", "POST /queues/mail/resume"),
    step("set_queue", "ok", "PATCH /queues/mail", {"max_waiting": 1_000_000, **WHY}),
    step("set_queue", "stale", "PATCH /queues/mail", {"max_waiting": 7}),
    step("reset_queue", "ok", "POST /queues/mail/reset", WHY),
    step("set_limit", "ok", "PUT /limits/calm", {"cap": 5, "jobs": ["work"], "reason": "why"}),
    step("list_limits", "ok", "GET /limits?order=fullest"),
    step("list_limits", "bad", "GET /limits?order=loudest"),
    step("get_limit", "ok", "GET /limits/calm"),
    step("get_limit", "bad", "GET /limits/calm?jobs=1"),
    step("get_limit", "missing", "GET /limits/none"),
    step("unblock_limit", "ok", "POST /limits/stuck/unblock", WHY),
    step("unblock_limit", "wrong", "POST /limits/stuck/unblock"),
    step("remove_limit", "ok", "DELETE /limits/calm?reason=why"),
    step("remove_limit", "wrong", "DELETE /limits/declared"),
    step("find", "ok", "GET /find?text=work"),
    step("find", "bad", "GET /find"),
    step("set_tenant", "ok", "PATCH /tenants/acme", {"weight": 2, "reason": "why"}),
    step("set_tenant", "stale", "PATCH /tenants/acme", {"weight": 3}),
    step("list_tenants", "ok", "GET /tenants?order=waiting&text=acm"),
    step("list_tenants", "bad", "GET /tenants?order=loudest"),
    step("get_tenant", "ok", "GET /tenants/acme"),
    step("get_tenant", "bad", "GET /tenants/acme?jobs=1"),
    step("get_tenant", "missing", "GET /tenants/none"),
    step("export_tenant", "bad", "GET /tenants/acme/export?to=x"),
    step("export_tenant", "missing", "GET /tenants/none/export"),
    step("get_tenant_stats", "ok", "GET /tenants/acme/stats"),
    step("get_tenant_stats", "bad", "GET /tenants/acme/stats?jobs=1"),
    step("get_tenant_stats", "missing", "GET /tenants/none/stats"),
    step("pause_tenant", "ok", "POST /tenants/acme/pause", WHY),
    step("pause_tenant", "ok", "POST /tenants/acme/pause"),
    step("reset_tenant", "wrong", "POST /tenants/acme/reset"),
    step("resume_tenant", "ok", "POST /tenants/acme/resume", WHY),
    step("resume_tenant", "ok", "POST /tenants/acme/resume"),
    step("reset_tenant", "ok", "POST /tenants/acme/reset", WHY),
    step("set_tenant", "ok", "PATCH /tenants/blue", {"weight": 2}),
    step("delete_tenant", "bad", "DELETE /tenants/blue?cancel_running=perhaps"),
    step("delete_tenant", "ok", "DELETE /tenants/blue?reason=why"),
    step("delete_tenant", "missing", "DELETE /tenants/blue"),
    step("list_workers", "ok", "GET /workers?status=live&host=host&order=oldest"),
    step("list_workers", "bad", "GET /workers?status=tired"),
    step("get_worker", "ok", "GET /workers/{worker}"),
    step("get_worker", "bad", "GET /workers/{worker}?all=1"),
    step("get_worker", "missing", "GET /workers/999"),
    step("drain_worker", "ok", "POST /workers/{worker}/drain", WHY),
    step("drain_worker", "wrong", "POST /workers/{gone}/drain"),
    step("stop_worker", "ok", "POST /workers/{worker}/stop", WHY),
    step("stop_worker", "wrong", "POST /workers/{gone}/stop"),
    step("resume_worker", "ok", "POST /workers/{worker}/resume", WHY),
    step("resume_worker", "wrong", "POST /workers/{gone}/resume"),
    step("list_jobs", "ok", "GET /jobs?order=changed&tag=mail&enabled=true"),
    step("list_jobs", "bad", "GET /jobs?metadata=team"),
    step("list_functions", "ok", "GET /functions"),
    step("list_functions", "bad", "GET /functions?odd=1"),
    step("get_job", "ok", "GET /jobs/send"),
    step("get_job", "bad", "GET /jobs/send?tag=x"),
    step("get_job", "missing", "GET /jobs/none"),
    step("update_job", "ok", "PATCH /jobs/send", {"priority": 2, **WHY}),
    step("update_job", "stale", "PATCH /jobs/send", {"priority": 3}),
    step("enable_job", "ok", "POST /jobs/send/enable"),
    step("rename_job", "wrong", "POST /jobs/rota.prune_runs/rename", {"new_name": "other"}),
    step("rename_job", "ok", "POST /jobs/clean/rename", {"new_name": "tidy", **WHY}),
    step("rename_job", "ok", "POST /jobs/tidy/rename", {"new_name": "clean"}),
    step("disable_job", "ok", "POST /jobs/send/disable", WHY),
    step("disable_job", "ok", "POST /jobs/send/disable"),
    step("enable_job", "ok", "POST /jobs/send/enable", WHY),
    step("plan_definitions", "ok", "GET /definitions/plan"),
    step("plan_definitions", "bad", "GET /definitions/plan?job=send"),
    step("sync_definitions", "ok", "POST /definitions/sync", {"force": ["send"]}),
    step("sync_definitions", "bad", "POST /definitions/sync", {"force": "send"}),
    step("sync_definitions", "missing", "POST /definitions/sync", {"force": ["none"]}),
    step("emit_event", "ok", "POST /events", {"event": "order.paid"} | DAYS),
    step("emit_event", "bad", "POST /events", {"event": "two words"}),
    step("list_events", "ok", "GET /events"),
    step("list_events", "bad", "GET /events?outcome=lost"),
    step("get_event", "ok", "GET /events/1"),
    step("get_event", "missing", "GET /events/999999"),
    step("get_event", "bad", "GET /events/0"),
    step("replay_events", "ok", "POST /events/replay", {"job": "clean", "ids": [1], **WHY}),
    step("replay_events", "bad", "POST /events/replay", {"job": "clean"}),
    step("replay_events", "missing", "POST /events/replay", {"job": "none", "event": "x"}),
    step("add_watch", "ok", "POST /watches", {"table": "watched", "on": "insert"}),
    step("list_watches", "ok", "GET /watches"),
    step("list_watches", "bad", "GET /watches?days=1"),
    step("get_watch", "ok", "GET /watches/1"),
    step("get_watch", "bad", "GET /watches/0"),
    step("get_watch", "missing", "GET /watches/99"),
    step("remove_watch", "ok", "DELETE /watches/1?reason=done"),
    step("list_refusals", "ok", "GET /events/refusals"),
    step("list_refusals", "bad", "GET /events/refusals?limit=0"),
    step("list_event_bindings", "ok", "GET /events/bindings?event=order.paid"),
    step("list_event_bindings", "bad", f"GET /events/bindings?job={'x' * 201}"),
    step("delete_job", "stale", "DELETE /jobs/clean"),
    step("delete_job", "wrong", "DELETE /jobs/clean"),
    step("delete_job", "ok", "DELETE /jobs/clean?cancel_open=true&reason=why"),
    step("list_audit", "ok", "GET /audit?order=oldest&limit=5"),
    step("list_audit", "bad", "GET /audit?since=yesterday"),
    step("get_audit_entry", "ok", "GET /audit/1"),
    step("get_audit_entry", "bad", "GET /audit/0"),
    step("get_audit_entry", "missing", "GET /audit/99999"),
    step("plan_retention", "ok", "GET /retention/plan"),
    step("plan_retention", "bad", "GET /retention/plan?days=1"),
    step("run_retention", "ok", "POST /retention/run"),
    step("run_retention", "bad", "POST /retention/run?days=1"),
    step("list_cleanup_tables", "ok", "GET /cleanup-tables"),
    step("list_cleanup_tables", "bad", "GET /cleanup-tables?days=1"),
    step("list_cleanup_recipes", "ok", "GET /cleanup-recipes"),
    step("list_cleanup_recipes", "bad", "GET /cleanup-recipes?days=1"),
    step("add_cleanup_recipe", "ok", "POST /cleanup/add-recipe", RECIPE),
    step("add_cleanup_recipe", "wrong", "POST /cleanup/add-recipe", RECIPE),
    step("add_cleanup", "ok", "POST /cleanup", CLEANUP),
    step("add_cleanup", "wrong", "POST /cleanup", CLEANUP),
    step("list_cleanups", "ok", "GET /cleanup"),
    step("list_cleanups", "bad", "GET /cleanup?days=1"),
    step("get_cleanup", "ok", "GET /cleanup/cleanup_magic_links"),
    step("get_cleanup", "bad", "GET /cleanup/cleanup_magic_links?days=1"),
    step("get_cleanup", "missing", "GET /cleanup/digest"),
    step("plan_cleanup", "ok", "GET /cleanup/cleanup_magic_links/plan"),
    step("plan_cleanup", "bad", "GET /cleanup/cleanup_magic_links/plan?days=1"),
    step("plan_cleanup", "missing", "GET /cleanup/none/plan"),
    step("run_cleanup", "ok", "POST /cleanup/cleanup_magic_links/run", WHY),
    step("remove_cleanup", "ok", "DELETE /cleanup/cleanup_magic_links?reason=why"),
    step("remove_cleanup", "wrong", "DELETE /cleanup/rota.cleanup"),
    step("get_config", "ok", "GET /config"),
    step("get_config", "bad", "GET /config?key=x"),
    step("get_clock", "ok", "GET /clock"),
    step("get_clock", "bad", "GET /clock?zone=UTC"),
    step("get_stats", "ok", "GET /stats?job=send&step_seconds=60"),
    step("get_stats", "bad", "GET /stats?step_seconds=61"),
    step("get_stats", "missing", "GET /stats?job=none"),
    step("get_trend", "ok", "GET /stats/trend?queue=mail&span=6h"),
    step("get_trend", "bad", "GET /stats/trend?span=2h"),
    step("get_trend", "missing", "GET /stats/trend?job=none"),
    step("get_attention", "ok", "GET /attention?limit=1"),
    step("get_attention", "bad", "GET /attention?limit=0"),
    step("get_doctor", "ok", "GET /doctor"),
    step("get_doctor", "bad", "GET /doctor?check=workers"),
    step("get_overview", "ok", "GET /overview?failing_seconds=60"),
    step("get_overview", "bad", "GET /overview?limit=0"),
    step("stream", "bad", "GET /stream?topics=gossip"),
    step("tail_logs", "bad", "GET /logs/tail?level=loud"),
]  # fmt: skip
# They stand outside /api/v1 (test_access, test_stats), or never end (test_stream).
ELSEWHERE = {("health", "bad"), ("ready", "bad"), ("metrics", "bad"), ("health", "ok"),
             ("ready", "ok"), ("metrics", "ok"), ("stream", "ok"), ("tail_logs", "ok"),
             # An archive, not JSON: tests/api/test_tenant_export.py.
             ("export_tenant", "ok")}  # fmt: skip
# What always may be done, whatever the state; 409 is only for a key that is in use.
NEVER_WRONG = {
    "sync_definitions", "cancel_runs", "retry_runs", "start_bulk_action", "preview_bulk_action",
    "delete_runs", "update_schedule", "backfill_schedule", "preview_timing", "emit_event",
    "replay_events",
}  # fmt: skip
# Another pass must be at work: tests/operations/test_retention.py. A worker must have a run of it:
# tests/operations/tenants/test_tenant_data.py.
BUSY = {"run_retention", "delete_tenant"}


@pytest.fixture
def world(shop: rota.App, conn: psycopg.Connection[Any]) -> dict[str, Any]:
    shop.jobs.sync.update("clean", events=["order.paid"])
    engine = Engine(conn)
    worker, gone = engine.worker("send"), engine.worker("send")
    conn.execute("UPDATE rota.workers SET state = 'gone', ended_at = now() WHERE id = %s", [gone])
    dead = engine.enqueue("send", {"user_id": 1})
    engine.fail(worker, engine.claim_one(worker, queues=["mail"], jobs=["send"]))
    (failure,) = shop.errors.sync.list()
    conn.execute("CREATE TABLE watched (id int)")
    conn.execute("CREATE TABLE magic_links (expires_at timestamptz)")
    # A sequence that waits for the success of a run, and a limit that the code declares.
    conn.execute(
        "INSERT INTO rota.limit_slots (tenant, key, blocked_by) SELECT '', 's' || rota.set_limit("
        '\'stuck\', \'{"kind": "sequence", "next_after": "success"}\') || \':\', 1'
    )
    conn.execute("SELECT rota.set_limit('declared', '{\"cap\": 3}')")
    conn.execute("UPDATE rota.limits SET code = '{\"send\": {}}' WHERE name = 'declared'")
    conn.execute("ALTER TABLE rota.bulk_actions ALTER id RESTART WITH 50")
    conn.execute("SELECT rota.start_bulk_action('cancel', '{\"job\": \"send\"}')")
    conn.execute("UPDATE rota.bulk_actions SET state = 'finished', finished_at = now()")
    conn.execute("ALTER TABLE rota.bulk_actions ALTER id RESTART WITH 1")
    conn.execute("TRUNCATE rota.audit RESTART IDENTITY")
    return {"worker": worker, "gone": gone, "dead": dead, "group": failure.id}


def fill(value: Any, world: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: fill(one, world) for key, one in value.items()}
    if isinstance(value, list):
        return [fill(one, world) for one in value]
    return world[value[1:-1]] if value in ("{run}", "{edit}") else value


async def carry_out(api: httpx.AsyncClient, one: Step, world: dict[str, Any], number: int) -> None:
    headers = {"If-Match": '"999"'} if one.kind in ("stale", "missing") else {}
    if one.method == "POST":
        headers["Idempotency-Key"] = f"step-{number}"
    path = "/api/v1" + one.path.format(**world)
    body = fill(one.body, world)
    response = await api.request(one.method, path, json=body, headers=headers)
    told = (one.operation, one.kind, response.text)
    assert response.status_code in STATUS[one.kind], told
    if one.kind != "ok":
        problem(response, response.status_code, response.json()["code"])
        return
    if one.operation == "enqueue_run":
        world["run"] = response.json()["run_id"]
    if one.operation == "list_edits":
        world["edit"] = response.json()["items"][0]["id"]
    if one.method == "POST":
        again = await api.request(one.method, path, json=body, headers=headers)
        assert again.headers.get("idempotency-replayed") == "true", told
        assert (again.status_code, again.json()) == (response.status_code, response.json()), told


async def test_every_operation(
    api: httpx.AsyncClient, world: dict[str, Any], conn: psycopg.Connection[Any]
) -> None:
    failures = []
    for number, one in enumerate(STORY):
        try:
            await carry_out(api, one, world, number)
        except AssertionError as error:
            failures.append(error)
    assert failures == []
    rows = conn.execute("SELECT actor, action, reason FROM rota.audit").fetchall()
    assert {actor for actor, _, _ in rows} == {"api:admin"}
    explained = {action for _, action, reason in rows if reason == "why"}
    assert {action for _, action, _ in rows} - explained == {
        # What is asked for needs no reason; and what the code says.
        "run.enqueued", "event.emitted", "job.synced", "watch.created", "watch.deleted",
    }  # fmt: skip


def test_the_story_leaves_nothing_out() -> None:
    """Declared operations are in another table: tests/operations/test_faces.py."""
    app = rota.App(embedded=False, server={"token": TOKEN})
    missing = set()
    told = {(one.operation, one.kind) for one in STORY} | ELSEWHERE
    for operations in create_api(app).openapi()["paths"].values():
        for operation in operations.values():
            missing |= {(operation["operationId"], kind) for kind in wanted(operation)} - told
    assert {(name, kind) for name, kind in missing if name not in declared_ids()} == set()


def declared_ids() -> set[str]:
    nouns = [commands_of(many) for many in NOUNS]
    return {one.name_of(noun.noun) for noun in nouns for one in operations_of(noun)}


def wanted(operation: dict[str, Any]) -> set[str]:
    name, answers = operation["operationId"], operation["responses"]
    kinds = {"ok", "bad"}
    kinds |= {"stale"} if "412" in answers else set()
    kinds |= {"missing"} if "404" in answers else set()
    is_wrong = "409" in answers and name not in NEVER_WRONG | BUSY
    return kinds | ({"wrong"} if is_wrong else set())


async def test_an_error_that_nobody_foresaw_tells_nothing(
    shop: rota.App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither SQL nor a stack to the caller; and no token to the log."""

    async def broken(*_: Any, **__: Any) -> None:
        token = HEADERS["Authorization"]
        raise RuntimeError(f"SELECT secret FROM rota.runs {len(token)}")

    monkeypatch.setattr("rota.operations.clock.Clock.now", broken)
    async with client_of(create_api(shop), **HEADERS) as client:
        response = await client.get("/api/v1/clock")
    problem(response, 500, "internal")
    assert "SELECT" not in response.text
    assert "Traceback" not in response.text
    assert TOKEN not in caplog.text
    assert "SELECT secret" in caplog.text


@pytest.mark.parametrize("token", ["wrong", TOKEN[:-1], TOKEN + "x", "", "ü"])
async def test_a_wrong_token_is_refused_and_told_nobody(
    shop: rota.App, token: str, capfd: pytest.CaptureFixture[str]
) -> None:
    headers = {"Authorization": f"Bearer {token}".encode()}
    transport = httpx.ASGITransport(create_api(shop))
    async with httpx.AsyncClient(transport=transport, base_url="http://rota.test") as client:
        found = problem(await client.get("/api/v1/clock", headers=headers), 401, "unauthorized")
    assert len(token) < 3 or token not in f"{found}{capfd.readouterr()}"
