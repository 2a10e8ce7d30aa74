"""`GET /api/v1/attention`."""

from __future__ import annotations

import httpx

from tests.api.conftest import problem


async def test_nothing_and_something(api: httpx.AsyncClient) -> None:
    found = (await api.get("/api/v1/attention")).json()
    assert (found["total"], found["needs"], found["kinds"]) == (0, [], [])
    await api.post("/api/v1/queues/mail/pause", json={"reason": "down"})
    found = (await api.get("/api/v1/attention")).json()
    assert found["total"] == 1
    (need,) = found["needs"]
    assert (need["kind"], need["name"], need["command"]) == (
        "paused_queue",
        "mail",
        "rota queues resume mail",
    )


async def test_a_limit_that_is_none(api: httpx.AsyncClient) -> None:
    problem(await api.get("/api/v1/attention", params={"limit": "0"}), 422, "invalid")
