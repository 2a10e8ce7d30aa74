"""GET /find."""

from __future__ import annotations

import httpx

import rota
from tests.api.conftest import problem


async def test_by_id_key_and_name(api: httpx.AsyncClient, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1}, key="order-17")
    await shop.schedules.create("send", "send", cron="0 3 * * *", payload={"user_id": 1})
    for text in (str(run.id), "order-17"):
        (found,) = (await api.get(f"/api/v1/find?text={text}")).json()
        assert (found["kind"], found["name"], found["detail"]) == ("run", str(run.id), "send")
    kinds = [one["kind"] for one in (await api.get("/api/v1/find?text=SEN")).json()]
    assert kinds == ["schedule", "job"]
    assert (await api.get("/api/v1/find?text=nobody")).json() == []


async def test_bad_input(api: httpx.AsyncClient, shop: rota.App) -> None:
    problem(await api.get("/api/v1/find"), 422, "invalid")
    problem(await api.get("/api/v1/find?text=x&limit=0"), 422, "invalid")
    problem(await api.get("/api/v1/find?text=%20"), 422, "filter_error")


async def test_a_stranger_is_told_nothing(stranger: httpx.AsyncClient) -> None:
    problem(await stranger.get("/api/v1/find?text=1"), 401, "unauthorized")
