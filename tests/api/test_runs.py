"""Runs over HTTP."""

from __future__ import annotations

import httpx

RUNS = "/api/v1/runs"


async def enqueue(api: httpx.AsyncClient, **body: object) -> int:
    response = await api.post(RUNS, json={"job": "send", "payload": {"user_id": 1}} | body)
    assert response.status_code == 201, response.text
    return int(response.json()["run_id"])


async def test_a_run_is_enqueued_and_read(api: httpx.AsyncClient) -> None:
    response = await api.post(
        RUNS,
        json={"job": "send", "payload": {"user_id": 7}, "priority": 1, "tags": ["vip"], "key": "k"},
    )
    assert response.status_code == 201
    run_id = response.json()["run_id"]
    assert response.headers["location"] == f"{RUNS}/{run_id}"
    run = (await api.get(f"{RUNS}/{run_id}")).json()
    assert run["payload"] == {"user_id": 7}
    assert (run["queue"], run["priority"], run["state"]) == ("mail", 1, "queued")
    assert run["triggered_by"] == {"type": "manual", "actor": "api:admin"}
    again = await api.post(RUNS, json={"job": "send", "payload": {"user_id": 8}, "key": "k"})
    assert again.json() == {"run_id": run_id, "job": "send", "is_duplicate": True}
