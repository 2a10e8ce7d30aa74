"""Runs over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

import rota
from tests.api.conftest import problem

pytestmark = pytest.mark.both_servers

RUNS = "/api/v1/runs"


async def enqueue(api: httpx.AsyncClient, **body: object) -> int:
    response = await api.post(RUNS, json={"job": "send", "payload": {"user_id": 1}} | body)
    assert response.status_code == 201, response.text
    return int(response.json()["run_id"])


async def test_a_run_is_enqueued_and_read(api: httpx.AsyncClient) -> None:
    body = {"job": "send", "payload": {"user_id": 7}, "priority": 1, "tags": ["vip"], "key": "k"}
    response = await api.post(RUNS, json=body)
    assert response.status_code == 201
    run_id = response.json()["run_id"]
    assert response.headers["location"] == f"{RUNS}/{run_id}"
    run = (await api.get(f"{RUNS}/{run_id}")).json()
    assert run["payload"] == {"user_id": 7}
    assert (run["queue"], run["priority"], run["state"]) == ("mail", 1, "queued")
    assert run["triggered_by"] == {"type": "manual", "actor": "api:admin"}
    again = await api.post(RUNS, json={"job": "send", "payload": {"user_id": 8}, "key": "k"})
    assert again.json() == {"run_id": run_id, "job": "send", "is_duplicate": True}


async def test_a_run_has_what_its_job_says(api: httpx.AsyncClient) -> None:
    changes = {
        "default_payload": {"user_id": 9}, "delay_seconds": 60, "expires_in_seconds": 600,
        "key": "user:{user_id}", "tenant": "acme",
    }  # fmt: skip
    changed = await api.patch("/api/v1/jobs/send", json=changes)
    assert {name: changed.json()[name] for name in changes} == changes
    run_id = (await api.post(RUNS, json={"job": "send"})).json()["run_id"]
    run = (await api.get(f"{RUNS}/{run_id}")).json()
    assert (run["payload"], run["key"], run["tenant"]) == ({"user_id": 9}, "user:9", "acme")
    assert (run["state"], run["expires_at"] is not None) == ("scheduled", True)
    own = {"job": "send", "payload": {"user_id": 1}, "expires_in_seconds": 5, "delay_seconds": 0}
    run_id = (await api.post(RUNS, json=own)).json()["run_id"]
    assert (await api.get(f"{RUNS}/{run_id}")).json()["state"] == "queued"
    both = own | {"expires_at": "2099-01-01T00:00:00Z"}
    problem(await api.post(RUNS, json=both), 422, "input_error")
    cleared = await api.patch("/api/v1/jobs/send", json={"key": None, "reset": ["tenant"]})
    assert (cleared.json()["key"], cleared.json()["tenant"]) == (None, None)


async def test_what_does_not_fit_is_refused(
    api: httpx.AsyncClient, conn: psycopg.Connection[Any]
) -> None:
    good = {"job": "send", "payload": {"user_id": 7}}
    found = problem(await api.post(RUNS, json=good | {"priority": "1"}), 422, "invalid")
    assert (found["field"], found["errors"][0]["field"]) == ("priority", "priority")
    problem(await api.post(RUNS, json=good | {"tags": ["ok", ""]}), 422, "invalid")
    problem(await api.post(RUNS, json=good | {"priorty": 1}), 422, "invalid")
    problem(await api.post(RUNS, json=good | {"run_at": "2026-01-01T00:00:00"}), 422, "invalid")
    problem(await api.post(RUNS, json={"job": "send", "payload": {}}), 422, "payload_error")
    problem(await api.post(RUNS, json=good | {"key_seconds": 5}), 422, "input_error")
    problem(await api.post(RUNS, json={"job": "nothing"}), 404, "unknown_job")
    assert conn.execute("SELECT count(*) FROM rota.runs").fetchone() == (0,)


async def test_a_key_that_is_held_may_be_an_error(api: httpx.AsyncClient) -> None:
    await enqueue(api, key="k")
    body = {"job": "send", "payload": {"user_id": 1}, "key": "k", "on_conflict": "raise"}
    problem(await api.post(RUNS, json=body), 409, "duplicate_key")


async def test_lists_filter_sort_and_page(api: httpx.AsyncClient) -> None:
    ids = [await enqueue(api, tags=["odd" if n % 2 else "even"]) for n in range(5)]
    first = (await api.get(RUNS, params={"limit": 2})).json()
    assert [one["id"] for one in first["items"]] == ids[:2:-1]
    second = await api.get(RUNS, params={"limit": 2, "cursor": first["next_cursor"]})
    assert [one["id"] for one in second.json()["items"]] == ids[2:0:-1]
    oldest = (await api.get(RUNS, params={"limit": 5, "order": "oldest"})).json()
    assert [one["id"] for one in oldest["items"]] == ids
    odd = (await api.get(RUNS, params={"tag": "odd", "state": ["queued", "failed"]})).json()
    assert [one["id"] for one in odd["items"]] == [ids[3], ids[1]]
    assert (await api.get(RUNS, params={"job": "clean"})).json()["items"] == []
    assert (await api.get(RUNS, params={"dead": True})).json()["items"] == []
    for bad in (
        {"limit": 1001}, {"limit": 0}, {"state": "done"}, {"cursor": "x"}, {"since": "soon"},
        {"cursor": first["next_cursor"], "order": "oldest"},
    ):  # fmt: skip
        problem(await api.get(RUNS, params=bad), 422, "invalid")
    found = problem(await api.get(RUNS, params={"jobb": "send"}), 422, "unknown_parameter")
    assert found["field"] == "jobb"


async def test_a_run_is_cancelled_retried_and_deleted(
    api: httpx.AsyncClient, conn: psycopg.Connection[Any]
) -> None:
    run = f"{RUNS}/{await enqueue(api)}"
    problem(await api.post(f"{run}/retry"), 409, "wrong_state")
    problem(await api.delete(run), 409, "wrong_state")
    cancelled = await api.post(f"{run}/cancel", json={"reason": "twice"})
    assert cancelled.json()["result"] == "cancelled"
    problem(await api.post(f"{run}/cancel"), 409, "wrong_state")
    problem(
        await api.post(f"{run}/retry", json={"payload": {"user_id": "x"}}), 422, "payload_error"
    )
    back = (await api.post(f"{run}/retry", json={"payload": {"user_id": 9}})).json()
    assert (back["state"], back["payload"]) == ("queued", {"user_id": 9})
    await api.post(f"{run}/cancel")
    assert (await api.delete(run, params={"reason": "private"})).status_code == 200
    problem(await api.get(run), 404, "run_not_found")
    actors = conn.execute("SELECT DISTINCT actor FROM rota.audit").fetchall()
    assert actors == [("api:admin",)]


async def test_details_attempts_and_logs(api: httpx.AsyncClient, shop: rota.App) -> None:
    @shop.job
    async def talk(ctx: rota.Context) -> None:
        ctx.log.info("hello there", user=7)
        raise rota.Cancel("enough")

    run = await talk.enqueue()
    async with shop.worker():
        await shop.runs.wait(run.id, 20)
    details = (await api.get(f"{RUNS}/{run.id}/details")).json()
    assert details["run"]["state"] == "cancelled"
    attempts = (await api.get(f"{RUNS}/{run.id}/attempts")).json()
    assert [one["state"] for one in attempts["items"]] == ["cancelled"]
    lines = (await api.get(f"{RUNS}/{run.id}/logs")).json()["items"]
    assert [one["message"] for one in lines] == ["hello there"]
    found = (await api.get("/api/v1/logs", params={"text": "hello user:7"})).json()
    assert [one["run_id"] for one in found["items"]] == [run.id]
    assert (await api.get("/api/v1/logs", params={"level": "error"})).json()["items"] == []
    problem(await api.get("/api/v1/logs", params={"level": "loud"}), 422, "invalid")
    problem(await api.get("/api/v1/logs", params={"cursor": "x"}), 422, "invalid")


async def test_many_at_once(api: httpx.AsyncClient) -> None:
    ids = [await enqueue(api) for _ in range(3)]
    done = (await api.post(f"{RUNS}/cancel", json={"ids": [ids[0], 77, ids[1]]})).json()
    assert [(one["id"], one["outcome"]) for one in done["items"]] == [
        (ids[0], "cancelled"), (77, "refused"), (ids[1], "cancelled"),
    ]  # fmt: skip
    retried = await api.post(f"{RUNS}/retry", json={"ids": ids[:2], "payload": {"user_id": 5}})
    assert retried.json()["done"] == 2
    assert (await api.get(f"{RUNS}/{ids[0]}")).json()["payload"] == {"user_id": 5}
    await api.post(f"{RUNS}/cancel", json={"ids": ids})
    gone = (await api.post(f"{RUNS}/delete", json={"ids": ids})).json()
    assert gone["done"] == 3


async def test_many_need_ids(api: httpx.AsyncClient) -> None:
    for action in ("cancel", "retry", "delete"):
        for bad in ({}, {"filter": {"job": "send"}}, {"ids": []}):
            problem(await api.post(f"{RUNS}/{action}", json=bad), 422, "invalid")


async def test_an_expired_run_is_over_before_anybody_writes_it_down(
    api: httpx.AsyncClient, conn: psycopg.Connection[Any]
) -> None:
    run_id = await enqueue(api, key="k", expires_at="2026-01-01T00:00:00Z")
    run = (await api.get(f"{RUNS}/{run_id}", params={"wait_seconds": 30})).json()
    assert (run["state"], run["end_reason"], run["finished_at"]) == (
        "cancelled", "expired", run["created_at"],
    )  # fmt: skip
    for states, found in ((["queued", "running"], []), (["cancelled"], [run_id])):
        page = (await api.get(RUNS, params={"state": states})).json()
        assert [it["id"] for it in page["items"]] == found
    problem(await api.post(f"{RUNS}/{run_id}/cancel"), 409, "wrong_state")
    stats = (await api.get("/api/v1/stats")).json()["states"]
    assert (stats["queued"], stats["cancelled"]) == (0, 1)
    assert conn.execute("SELECT count(*) FROM rota.open_runs").fetchone() == (1,)
    assert await enqueue(api, key="k") != run_id
    retried = await api.post(f"{RUNS}/{run_id}/retry")
    problem(retried, 409, "duplicate_key")
    assert (await api.delete(f"{RUNS}/{run_id}")).status_code == 200
