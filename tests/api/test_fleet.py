"""Full queues, isolated runs, events, the audit, settings and retention over HTTP."""

from __future__ import annotations

import math
from typing import Any

import httpx
import psycopg

import rota
from tests.api.conftest import TOKEN, problem
from tests.sql_engine import Engine

V1 = "/api/v1"


async def test_a_full_queue(api: httpx.AsyncClient) -> None:
    await api.patch(f"{V1}/queues/mail", json={"max_waiting": 0})
    send = {"job": "send", "payload": {"user_id": 1}}
    problem(await api.post(f"{V1}/runs", json=send), 429, "queue_full")


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
