"""Failures by kind, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import rota
from rota.testing import run_due
from tests.api.conftest import problem


@pytest.fixture
async def group(shop: rota.App) -> str:
    @shop.job(max_attempts=1)
    async def call(order: int) -> None:
        raise ConnectionError(f"order {order} was refused")

    @shop.job(max_attempts=1)
    async def other() -> None:
        raise ValueError("no")

    for order in range(2):
        await shop.runs.enqueue("call", {"order": order})
    await run_due(shop)
    (found,) = await shop.errors.list()
    return found.id


async def test_list_and_get(api: httpx.AsyncClient, group: str) -> None:
    body = (await api.get("/api/v1/errors", params={"standing": "new", "text": "refused"})).json()
    assert [(it["id"], it["failures"], it["jobs"]) for it in body["items"]] == [
        (group, 2, ["call"])
    ]
    assert (body["standings"], body["failures"], body["next_cursor"]) == ({"new": 1}, 2, None)
    details = (await api.get(f"/api/v1/errors/{group}")).json()
    assert "ConnectionError" in details["traceback"]
    assert details["looked_at"] == 2
    found = await api.get("/api/v1/runs", params={"error_group": group, "handled": "false"})
    assert len(found.json()["items"]) == 2


async def test_pages_follow_one_another(api: httpx.AsyncClient, shop: rota.App, group: str) -> None:
    await shop.runs.enqueue("other")
    await run_due(shop)
    seen: list[str] = []
    cursor: Any = None
    for _ in range(2):
        asked = {"limit": 1, "order": "most"} | ({"cursor": cursor} if cursor else {})
        body = (await api.get("/api/v1/errors", params=asked)).json()
        seen += [it["error_type"] for it in body["items"]]
        cursor = body["next_cursor"]
    assert seen == ["ConnectionError", "ValueError"]
    assert cursor is None


async def test_runs_are_handled_and_found(
    api: httpx.AsyncClient, shop: rota.App, group: str
) -> None:
    (run, other) = await shop.runs.list(dead=True)
    answer = await api.post(f"/api/v1/runs/{run.id}/handle", json={"reason": "refunded"})
    assert answer.json()["id"] == run.id
    problem(await api.post(f"/api/v1/runs/{run.id}/handle"), 409, "wrong_state")
    found = await api.get("/api/v1/runs", params={"handled": "false"})
    assert [it["id"] for it in found.json()["items"]] == [other.id]
    await api.post(f"/api/v1/runs/{run.id}/reopen")
    problem(await api.post(f"/api/v1/runs/{run.id}/reopen"), 409, "wrong_state")
    problem(await api.post("/api/v1/runs/999/handle"), 404, "run_not_found")
    problem(await api.post("/api/v1/runs/999/reopen"), 404, "run_not_found")


@pytest.mark.parametrize(
    "asked",
    [
        {"error": "was refused"}, {"payload_field": "order:1"}, {"dead": "true"},
        {"ended_since": "2020-01-01T00:00:00Z"}, {"worker": 1},
    ],
    ids=str,
)  # fmt: skip
async def test_runs_by_what_went_wrong(
    api: httpx.AsyncClient, group: str, asked: dict[str, Any]
) -> None:
    found = (await api.get("/api/v1/runs", params=asked)).json()["items"]
    assert 1 <= len(found) <= 2
    bad = await api.get("/api/v1/runs", params={"payload_field": "odd"})
    problem(bad, 422, "invalid")
