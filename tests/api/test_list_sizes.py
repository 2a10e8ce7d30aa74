"""Every list of the API, on a database with large values: its answer stays small, and its cursor
leads on. One that is new to the description is missing here, and fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

import rota
from rota.api import create_api
from rota.model.page import LISTED_BYTES, PAGE_BYTES
from tests.api.conftest import HEADERS, TOKEN, client_of

MOST = 12_000_000
ROWS = 1001
# A page of so large values would be larger than that.
TEXT = "repeat('x', 20000)"
# As long as it may be.
DESCRIPTION = "repeat('x', 10000)"
JSON = f"jsonb_build_object('x', {TEXT})"
ENTRY = "INSERT INTO rota.audit (actor, action, object_type, object_id, after, before, reason)"
# By path: what fills the list, past all triggers where they are not needed.
TRIGGERED = {"/runs", "/schedules"}
FLOODS = {
    "/jobs": "INSERT INTO rota.jobs (name, description, metadata, default_payload, payload_schema)"
    f" SELECT 'job ' || n, {DESCRIPTION}, {JSON}, {JSON}, {JSON} FROM n",
    "/runs": f"SELECT rota.enqueue('send', {JSON}, metadata => {JSON}) FROM n;"
    f" UPDATE rota.open_runs SET last_error = {TEXT}, message = {TEXT}",
    "/runs/{run_id}/attempts": "INSERT INTO rota.past_attempts (run_id, attempt, state, worker,"
    " started_at, finished_at, is_spent, job, tenant, message, details, error, traceback)"
    " SELECT 1, n, 'failed', 1, rota.now(), rota.now() + interval '1 hour', true, 'send', '',"
    f" {TEXT}, {JSON}, {TEXT}, {TEXT} FROM n",
    "/runs/{run_id}/logs": "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job,"
    f" message) SELECT rota.now() + interval '1 second', 1, 1, 1, n, 'info', 'send', {TEXT} FROM n",
    "/logs": "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)"
    f" SELECT rota.now() - interval '1 second', 1, 1, 1, n, 'info', 'send', {TEXT} FROM n",
    "/bulk": "INSERT INTO rota.bulk_actions (verb, filter, payload, actor, reason, created_at,"
    f" changed_at) SELECT 'retry', {JSON}, {JSON}, 'me', {TEXT}, rota.now(), rota.now() FROM n",
    "/errors": "INSERT INTO rota.error_groups (id, error_type, error, is_system, last_run_id,"
    " first_seen_at, last_seen_at, failures, runs)"
    f" SELECT 'e' || n, 'Broken', {TEXT}, false, 1, rota.now(), rota.now(), 1, 1 FROM n",
    "/schedules": "INSERT INTO rota.schedules (name, job, cron, description, payload, metadata,"
    f" run_metadata) SELECT 's ' || n, 'send', '0 3 * * *', {DESCRIPTION}, {JSON}, {JSON}, {JSON}"
    " FROM n",
    "/schedules/{name}/occurrences": "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at,"
    " decision, tenant, schedule, claimed_at, decided_at, reason, error, details)"
    " SELECT s.id, i.at, i.at, 'skipped', '', s.name, i.at, i.at, 'overlap',"
    f" {TEXT}, {JSON} FROM n, rota.schedules s, LATERAL (SELECT rota.now() - n * interval"
    " '1 second' AS at) i WHERE s.name = 'nightly'",
    "/schedules/{name}/edits": f"{ENTRY} SELECT 'me', 'schedule.updated', 'schedule', 'nightly',"
    f" jsonb_build_object('payload', {JSON}), jsonb_build_object('payload', {JSON}), {TEXT} FROM n",
    "/schedules/{name}/manual": f"{ENTRY} SELECT 'me', 'schedule.triggered', 'schedule', 'nightly',"
    f" '{{\"run_id\": 1}}', NULL, {TEXT} FROM n",
    "/calendars": "INSERT INTO rota.calendars (name, description, definition)"
    f" SELECT 'c ' || n, {DESCRIPTION}, {JSON} FROM n",
    "/templates": "INSERT INTO rota.schedule_templates (name, cron, description)"
    f" SELECT 't ' || n, '@daily', {DESCRIPTION} FROM n",
    "/queues": "INSERT INTO rota.queues (name, is_paused, paused_at, pause_reason)"
    f" SELECT 'q ' || n, true, rota.now(), {TEXT} FROM n",
    "/tenants": "INSERT INTO rota.tenants (name, metadata, is_paused, pause_reason)"
    f" SELECT 't' || n, {JSON}, true, {TEXT} FROM n",
    "/limits": "INSERT INTO rota.limits (name, kind, cap, code, key)"
    f" SELECT 'l' || n, 'concurrency', 1, {JSON}, {TEXT} FROM n",
    "/workers": "INSERT INTO rota.workers (name, host, pid, concurrency, lease_seconds,"
    f" lease_expires_at, drain_reason) SELECT 'w', {TEXT}, 1, 1, 60,"
    f" clock_timestamp() + interval '1 hour', {TEXT} FROM n",
    "/events": "INSERT INTO rota.events (name, id, at, payload, metadata, source)"
    f" SELECT 'told', n, rota.now(), {JSON}, {JSON}, {JSON} FROM n",
    "/events/refusals": "INSERT INTO rota.hook_refusals (hook, reason, address, minute, refusals,"
    " last_at) SELECT 'h' || n, 'signature', '::1', rota.now(), 1, rota.now() FROM n",
    "/audit": f"{ENTRY} SELECT 'me', 'x.done', 'x', 'y', {JSON}, {JSON}, {TEXT} FROM n",
}
# Lists without pages, and why they are short.
WHOLE = {
    "/functions": "functions of the database",
    "/definitions/plan": "differences between the code of this process and the database",
    "/views": "what people have saved by hand",
    "/schedules/{name}/preview": "as many times as were asked for",
    "/schedules/{name}/overrides": "fields of one schedule",
    "/events/bindings": "jobs that are bound to events",
    "/watches": "tables that are watched",
    "/retention/plan": "partitions",
    "/cleanup": "tables that are cleaned up",
    "/cleanup/{name}/plan": "rules of one cleanup",
    "/cleanup-recipes": "tables of the database",
    "/cleanup-tables": "tables of the database",
    "/config": "settings",
    "/overview": "numbers, and the first few of what needs attention",
    "/attention": "the first few of each kind",
    "/find": "names, as many as were asked for",
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    app = rota.App(embedded=False, server={"token": TOKEN})
    found: dict[str, Any] = create_api(app).openapi()
    return found


def paths_of(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    prefix = "/api/v1"
    return {
        path.removeprefix(prefix): methods["get"]
        for path, methods in described["paths"].items()
        if path.startswith(prefix) and "get" in methods
    }


def is_list(described: dict[str, Any], operation: dict[str, Any]) -> bool:
    content = operation["responses"].get("200", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    named = described["components"]["schemas"].get(schema.get("$ref", "").split("/")[-1], {})
    is_whole = schema.get("type") == "array" or "items" in named.get("properties", {})
    return is_whole or "limit" in parameters(operation)


def parameters(operation: dict[str, Any]) -> set[str]:
    return {one["name"] for one in operation.get("parameters", ())}


def test_every_list_is_known_here(described: dict[str, Any]) -> None:
    lists = {path: it for path, it in paths_of(described).items() if is_list(described, it)}
    paged = {path for path, it in lists.items() if "cursor" in parameters(it)}
    assert paged == FLOODS.keys()
    assert lists.keys() - paged <= WHOLE.keys()


@pytest.mark.slow
@pytest.mark.parametrize("path", FLOODS)
async def test_its_answer_is_small(
    make_app: Callable[..., rota.App],
    conn: psycopg.Connection[Any],
    described: dict[str, Any],
    path: str,
) -> None:
    app = make_app(**{"server.token": TOKEN})

    @app.job
    async def send(x: str = "") -> None: ...

    run = await app.runs.enqueue("send", {})
    await app.schedules.create("nightly", job="send", cron="0 3 * * *")
    flood(conn, path)
    address = "/api/v1" + path.format(run_id=run.id, name="nightly")
    seen, cursor = 0, None
    async with client_of(create_api(app), **HEADERS) as api:
        for _ in range(100):
            body = await answer(api, address, cursor)
            seen, cursor = seen + len(body["items"]), body["next_cursor"]
            for address_of in wholes(body["items"]):
                assert address_of in paths_of(described)
            if cursor is None:
                break
    assert seen >= ROWS


def flood(conn: psycopg.Connection[Any], path: str) -> None:
    if path not in TRIGGERED:
        conn.execute("SET session_replication_role = replica")
    for statement in FLOODS[path].split(";"):
        conn.execute(f"WITH n AS (SELECT n FROM generate_series(1, {ROWS}) n) {statement}".encode())


async def answer(api: httpx.AsyncClient, address: str, cursor: str | None) -> dict[str, Any]:
    asked = {"limit": 1000} | ({} if cursor is None else {"cursor": cursor})
    found = await api.get(address, params=asked)
    assert found.status_code == 200, found.text[:1000]
    assert len(found.content) < MOST
    body: dict[str, Any] = found.json()
    return body


def wholes(value: Any) -> set[str]:
    """Where the whole of what was left out is."""
    if isinstance(value, dict):
        own = {value["$whole"]} if "$whole" in value else set()
        return own.union(*(wholes(it) for it in value.values()))
    if isinstance(value, list):
        return set().union(*(wholes(it) for it in value))
    return set()


def test_the_rule_fits_together() -> None:
    """A page holds many values that are just not too large."""
    assert 100 * LISTED_BYTES < PAGE_BYTES < MOST / 2
