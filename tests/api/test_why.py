"""GET /why."""

from __future__ import annotations

import httpx

import rota


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
