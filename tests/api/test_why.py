"""GET /why."""

from __future__ import annotations

import httpx

import rota
from tests.api.conftest import problem


async def test_why_a_run_waits(api: httpx.AsyncClient, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await shop.queues.by("grace").pause("mail", "provider is down")
    found = (await api.get(f"/api/v1/why?subject={run.id}")).json()
    assert (found["kind"], found["name"], found["also"]) == ("run", str(run.id), [])
    assert [one["code"] for one in found["reasons"]] == [
        "queue_paused",
        "no_worker",
        "next_in_line",
    ]
    first = found["reasons"][0]
    assert first["sentence"] == "Queue mail is paused by grace: “provider is down”."
    assert (first["by_whom"], first["facts"]) == ("grace", {"queue": "mail"})


async def test_which_of_them_is_meant(api: httpx.AsyncClient, shop: rota.App) -> None:
    await shop.schedules.create("send", "send", cron="0 3 * * *", payload={"user_id": 1})
    found = (await api.get("/api/v1/why?subject=send")).json()
    assert (found["kind"], found["also"]) == ("schedule", ["job"])
    found = (await api.get("/api/v1/why?subject=send&kind=job")).json()
    assert (found["kind"], found["also"]) == ("job", ["schedule"])


async def test_bad_input(api: httpx.AsyncClient, shop: rota.App) -> None:
    problem(await api.get("/api/v1/why"), 422, "invalid")
    problem(await api.get("/api/v1/why?subject=send&kind=flow"), 422, "invalid")


async def test_not_found(api: httpx.AsyncClient, shop: rota.App) -> None:
    problem(await api.get("/api/v1/why?subject=nobody"), 404, "queue_not_found")
    problem(await api.get("/api/v1/why?subject=999"), 404, "run_not_found")
    problem(await api.get("/api/v1/why?subject=x&kind=schedule"), 404, "schedule_not_found")


async def test_a_stranger_is_told_nothing(stranger: httpx.AsyncClient) -> None:
    problem(await stranger.get("/api/v1/why?subject=1"), 401, "unauthorized")
