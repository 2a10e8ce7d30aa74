"""Jobs, queues, workers, events, the audit, settings and retention over HTTP."""

from __future__ import annotations

import math
from typing import Any

import httpx
import psycopg

import rota
from tests.api.conftest import TOKEN, problem
from tests.sql_engine import Engine

V1 = "/api/v1"
SEND = f"{V1}/jobs/send"


async def test_jobs_are_listed_read_and_changed(api: httpx.AsyncClient) -> None:
    names = [one["name"] for one in (await api.get(f"{V1}/jobs")).json()["items"]]
    assert names == ["clean", "send"]
    first = (await api.get(f"{V1}/jobs", params={"limit": 1})).json()
    rest = await api.get(f"{V1}/jobs", params={"limit": 1, "cursor": first["next_cursor"]})
    assert [one["name"] for one in rest.json()["items"]] == ["send"]
    assert len((await api.get(f"{V1}/jobs", params={"tag": "mail"})).json()["items"]) == 1
    seen = (await api.get(SEND)).headers["etag"]
    body = {"priority": 1, "timeout_seconds": 5, "retention": {"days": 3}, "reason": "now"}
    changed = await api.patch(SEND, json=body, headers={"If-Match": seen})
    assert changed.json()["priority"] == 1
    assert changed.json()["retention"] == {"days": 3}
    late = await api.patch(SEND, json={"priority": 2}, headers={"If-Match": seen})
    problem(late, 412, "version_conflict")
    back = (await api.patch(SEND, json={"reset": ["priority", "timeout_seconds"]})).json()
    assert (back["priority"], back["timeout_seconds"]) != (1, 5)
    plan = (await api.get(f"{V1}/definitions/plan")).json()
    assert [(one["field"], one["change"]) for one in plan] == [("retention", "kept")]
    forced = await api.post(f"{V1}/definitions/sync", json={"force": ["send"]})
    told = {"written": ["send"], "deleted": [], "schedules": 0, "queues": 0}
    assert forced.json() == told
    problem(await api.post(f"{V1}/definitions/sync", json={"force": ["no"]}), 404, "unknown_job")


async def test_bad_changes_of_jobs(api: httpx.AsyncClient) -> None:
    problem(await api.patch(SEND, json={"priority": 10}), 422, "invalid")
    problem(await api.patch(SEND, json={"priority": None}), 422, "invalid")
    problem(await api.patch(SEND, json={"backoff": "sideways"}), 422, "job_error")
    problem(await api.patch(SEND, json={"reset": ["name"]}), 422, "invalid")
    unfit = {"default_payload": {"user_id": "x"}}
    problem(await api.patch(SEND, json=unfit), 422, "payload_error")
    for method, path in (
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/enable"), ("POST", "/disable"),
    ):  # fmt: skip
        body = {"priority": 1} if method == "PATCH" else None
        response = await api.request(method, f"{V1}/jobs/nobody{path}", json=body)
        problem(response, 404, "unknown_job")


async def test_jobs_are_switched_and_deleted(api: httpx.AsyncClient) -> None:
    assert (await api.post(f"{SEND}/disable", json={"reason": "no"})).json()["is_enabled"] is False
    assert (await api.post(f"{SEND}/enable")).json()["is_enabled"] is True
    problem(await api.post(f"{SEND}/enable", json={"reason": 7}), 422, "invalid")
    await api.post(f"{V1}/runs", json={"job": "send", "payload": {"user_id": 1}})
    problem(await api.delete(SEND), 409, "wrong_state")
    gone = (await api.delete(SEND, params={"cancel_open": True})).json()
    assert gone == {"name": "send", "cancelled_runs": 1}


async def test_queues(api: httpx.AsyncClient) -> None:
    await api.post(f"{V1}/runs", json={"job": "send", "payload": {"user_id": 1}})
    listed = (await api.get(f"{V1}/queues")).json()["items"]
    assert ("mail", 1) in [(one["name"], one["queued"]) for one in listed]
    found = (await api.get(f"{V1}/queues/mail")).json()
    assert [one["job"] for one in found["jobs"]] == ["send"]
    paused = (await api.post(f"{V1}/queues/mail/pause", json={"reason": "down"})).json()
    assert (paused["is_paused"], paused["paused_by"]) == (True, "api:admin")
    longer = (await api.post(f"{V1}/queues/mail/pause", json={"until": "1min"})).json()
    assert longer["paused_until"] > longer["paused_at"]
    past = {"until": "2020-03-08T09:00:00Z"}
    problem(await api.post(f"{V1}/queues/mail/pause", json=past), 422, "input_error")
    assert (await api.post(f"{V1}/queues/mail/resume")).json()["is_paused"] is False
    problem(await api.get(f"{V1}/queues/nobody"), 404, "queue_not_found")
    problem(await api.post(f"{V1}/queues/mail/pause", json={"why": 1}), 422, "invalid")


async def test_caps_of_queues(api: httpx.AsyncClient) -> None:
    mail = f"{V1}/queues/mail"
    body = {"max_waiting": 0, "when_full": "refuse", "reason": "the provider is slow"}
    made = await api.patch(mail, json=body)
    assert (made.json()["max_waiting"], made.json()["when_full"]) == (0, "refuse")
    send = {"job": "send", "payload": {"user_id": 1}}
    refused = problem(await api.post(f"{V1}/runs", json=send), 429, "queue_full")
    assert "0 runs wait, and its cap is 0" in refused["detail"]
    old = {"If-Match": '"1"'}
    problem(await api.patch(mail, json=body, headers=old), 412, "version_conflict")
    seen = {"If-Match": (await api.get(mail)).headers["etag"]}
    changed = await api.patch(mail, json={"when_full": "drop_lowest"}, headers=seen)
    assert (changed.json()["max_waiting"], changed.json()["when_full"]) == (0, "drop_lowest")
    for wrong in ({"max_waiting": -1}, {"when_full": "wait"}, {"cap": 1}):
        problem(await api.patch(mail, json=wrong), 422, "invalid")
    reset = (await api.post(f"{mail}/reset", json={"reason": "all is well"})).json()
    assert (reset["max_waiting"], reset["when_full"]) == (None, "refuse")
    problem(await api.post(f"{V1}/queues/nobody/reset"), 404, "queue_not_found")
    assert (await api.post(f"{V1}/runs", json=send)).status_code == 201


async def test_workers(api: httpx.AsyncClient, shop: rota.App) -> None:
    async with shop.worker():
        (worker,) = (await api.get(f"{V1}/workers")).json()["items"]
        path = f"{V1}/workers/{worker['id']}"
        assert (await api.get(path)).json()["id"] == worker["id"]
        drained = (await api.post(f"{path}/drain", json={"reason": "update"})).json()
        assert (await api.post(f"{path}/drain")).headers["rota-changed"] == "false"
        assert (drained["is_draining"], drained["drain_requested_by"]) == (True, "api:admin")
        assert (await api.post(f"{path}/resume")).json()["is_draining"] is False
        assert (await api.post(f"{path}/resume")).headers["rota-changed"] == "false"
        problem(await api.post(f"{path}/drain", json={"stop": "yes"}), 422, "invalid")
    for method, end in (("GET", ""), ("POST", "/drain"), ("POST", "/resume")):
        problem(await api.request(method, f"{V1}/workers/999{end}"), 404, "worker_not_found")
    problem(await api.post(f"{path}/drain"), 409, "wrong_state")
    assert (await api.get(f"{V1}/workers")).json()["items"] == []
    assert len((await api.get(f"{V1}/workers", params={"include_gone": True})).json()["items"]) == 1


async def test_an_isolated_run(api: httpx.AsyncClient, conn: psycopg.Connection[Any]) -> None:
    engine = Engine(conn)
    await api.get(f"{V1}/jobs")  # registers what the application declares
    run = engine.enqueue("clean", {"days": 1})
    lost, worker = engine.worker("clean"), engine.worker("clean")
    engine.claim_one(lost, jobs=["clean"])
    engine.lose(lost)
    engine.rescue()
    assert (await api.get(f"{V1}/runs/{run}/details")).json()["isolation"] == "waiting"
    engine.claim_suspect(worker, ["clean"], inline=["clean"])
    assert (await api.get(f"{V1}/runs/{run}/details")).json()["isolation"] == "inline"
    assert (await api.get(f"{V1}/workers/{worker}")).json()["isolating_run"] == run


async def test_events_start_what_is_bound_to_them(api: httpx.AsyncClient, shop: rota.App) -> None:
    @shop.job(events=["order.paid"])
    async def receipt(order_id: int) -> None: ...

    body = {"event": "order.paid", "payload": {"order_id": 7}, "key": "7"}
    emitted = await api.post(f"{V1}/events", json=body)
    assert emitted.status_code == 201
    assert [one["job"] for one in emitted.json()["runs"]] == ["receipt"]
    assert (await api.post(f"{V1}/events", json=body)).json()["runs"][0]["is_duplicate"] is True
    kept = body | {"key": "8", "key_seconds": "forever"}
    (run,) = (await api.post(f"{V1}/events", json=kept)).json()["runs"]
    found = "SELECT key_seconds FROM rota.open_runs WHERE id = %s"
    with shop.database.connection_sync() as conn:
        assert conn.execute(found, [run["run_id"]]).fetchone() == (math.inf,)
    problem(
        await api.post(f"{V1}/events", json={"event": "x", "key_seconds": 1}), 422, "input_error"
    )
    lost = (await api.post(f"{V1}/events", json={"event": "nobody.cares"})).json()
    assert lost["runs"] == []
    problem(await api.post(f"{V1}/events", json={"event": "two words"}), 422, "input_error")
    problem(await api.post(f"{V1}/events", json={}), 422, "invalid")


async def test_the_audit_says_who(api: httpx.AsyncClient) -> None:
    for action in ("pause", "resume"):
        await api.post(f"{V1}/queues/mail/{action}")
    query = {"actor": "api:admin", "object_type": "queue", "limit": 1}
    page = (await api.get(f"{V1}/audit", params=query)).json()
    (newest,) = page["items"]
    assert newest["object_id"] == "mail"
    more = await api.get(f"{V1}/audit", params=query | {"cursor": page["next_cursor"]})
    assert len(more.json()["items"]) == 1
    assert (await api.get(f"{V1}/audit/{newest['id']}")).json() == newest
    problem(await api.get(f"{V1}/audit/999999"), 404, "audit_entry_not_found")
    problem(await api.get(f"{V1}/audit", params={"since": "x"}), 422, "invalid")


async def test_settings_without_secrets_and_the_clock(api: httpx.AsyncClient) -> None:
    response = await api.get(f"{V1}/config")
    found = {one["key"]: one for one in response.json()}
    assert found["worker.poll_seconds"]["value"] == 0.1
    assert (found["server.token"]["value"], found["database_url"]["value"]) == ("***", "***")
    assert TOKEN not in response.text
    assert "now" in (await api.get(f"{V1}/clock")).json()


async def test_retention(api: httpx.AsyncClient) -> None:
    assert (await api.get(f"{V1}/retention/plan")).json()["is_dry_run"] is True
    assert (await api.post(f"{V1}/retention/run")).json()["is_dry_run"] is False


async def test_retention_by_a_worker(shop: rota.App, api: httpx.AsyncClient) -> None:
    """For who does not want to hold a request for as long as it takes."""
    asked = await api.post(f"{V1}/schedules/rota.prune_runs/trigger")
    run = asked.json()["run_id"]
    async with shop.worker():
        ended = (await api.get(f"{V1}/runs/{run}", params={"wait_seconds": 20})).json()
    assert (ended["state"], ended["result"]["deleted_rows"]) == ("succeeded", 0)
