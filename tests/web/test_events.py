"""The pages of events: lists, one, replays, watched tables."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from tests.web.conftest import Browser

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
async def events(shop: rota.App) -> rota.App:
    await shop.jobs.update("send", events=["user.*"], event_filters={"user.*": {"vip": True}})
    await shop.emit("user.created", {"vip": True, "user_id": 1}, hook="django")
    await shop.emit("user.created", {"vip": False}, tenant="acme")
    await shop.emit(f"odd.{SCRIPT}", {"text": SCRIPT}, key="k", key_period=60)
    await shop.emit(f"odd.{SCRIPT}", {"text": SCRIPT}, key="k", key_period=60)
    return shop


async def test_the_list(web: Browser, events: rota.App) -> None:
    await web.get("/events")
    rows = web.text.partition("Started runs")[2]
    assert "user.created hook django send 1" in rows
    assert "user.created acme nothing: no filter matched" in rows
    assert "nothing: event 3 came first" in rows
    assert "nothing: no job was bound to it" in rows
    assert SCRIPT not in web.page


@pytest.mark.parametrize(
    ("asked", "shown", "hidden"),
    [
        ("name=user.*", ["user.created"], ["odd."]),
        ("outcome=filtered", ["acme"], ["django"]),
        ("q=tenant:acme", ["acme"], ["django"]),
        ("q=user.created", ["django"], ["odd."]),
        ("text=vip", ["user.created"], ["odd."]),
        ("since=1h", ["odd."], []),
        ("job=send", ["user.created"], ["odd."]),
    ],
)
async def test_filters(
    web: Browser, events: rota.App, asked: str, shown: list[str], hidden: list[str]
) -> None:
    await web.get(f"/events?{asked}")
    rows = web.text.partition("From Started")[2]
    assert all(text in rows for text in shown)
    assert not any(text in rows for text in hidden)


async def test_filters_that_are_none(web: Browser, events: rota.App) -> None:
    for asked in ("q=colour:red", "outcome=lost", "since=soon"):
        await web.get(f"/events?{asked}", 422)
    await web.get("/events?name=nothing")
    assert "No event matches this filter" in web.text


async def test_no_events(web: Browser) -> None:
    await web.get("/events")
    assert "No events yet" in web.text


async def test_one(web: Browser, events: rota.App) -> None:
    await web.get("/events/1")
    assert "send 1 started" in web.text
    assert 'href="/runs/1"' in web.page
    await web.get("/events/2")
    assert "its filter did not match" in web.text
    await web.get("/events/4")
    assert 'href="/events/3"' in web.page
    assert SCRIPT not in web.page
    await web.get("/events/99", 404)


async def test_bursts(web: Browser, shop: rota.App) -> None:
    rule = {"throttle_seconds": 3600, "key": "user:{user_id}"}
    await shop.jobs.update("send", events=["user.*"], event_delivery=rule)
    for _ in range(2):
        await shop.emit("user.created", {"user_id": 1})
    await web.get("/events?outcome=throttled")
    assert "send 1 (throttled)" in web.text
    await web.get("/events/2")
    assert "send 1 throttled until " in web.text
    await web.get("/jobs/send")
    assert "throttled: only the first in 1 h, for each user:{user_id}" in web.text
    await web.get("/jobs/send/edit")
    await web.post("/jobs/send/edit", event_delivery='{"debounce_seconds": 5}')
    found = await shop.jobs.get("send")
    assert found.event_delivery == {"debounce_seconds": 5}
    await web.get("/jobs/send/edit")
    await web.post("/jobs/send/edit", 422, event_delivery='{"debounce_seconds": -5}')


async def test_replay(web: Browser, events: rota.App, conn: Any) -> None:
    await web.get("/events/replay?event=user.*")
    await web.post("/events/replay", event="user.*", job="clean", dry_run="true")
    assert "2 events: would start 2 runs." in web.text
    await web.post("/events/replay", event="user.*", job="clean", reason="late")
    assert "2 events: started 2 runs" in web.text
    entry = conn.execute("SELECT reason FROM rota.audit WHERE action = 'event.replayed'")
    assert entry.fetchall() == [("late",)]
    await web.get("/events/replay?ids=1")
    await web.post("/events/replay", ids="1", job="clean", dry_run="true")
    assert "would start 0 runs; 1 already delivered" in web.text
    await web.post("/events/replay", 422, ids="1", job="nobody")
    await web.post("/events/replay", 422, ids="1", job="")
    assert 'id="e-job"' in web.page
    await web.post("/events/replay", 422, ids="1", job="clean", since="soon")
    assert 'id="e-since"' in web.page
    await web.post("/events/replay", 422, job="clean")


async def test_emit(web: Browser, events: rota.App) -> None:
    await web.get("/events/emit")
    payload = '{"user_id": 7}'
    await web.post("/events/emit", 422, event="user.created", key_seconds="forever")
    assert "needs a key" in web.text
    await web.post("/events/emit", event="user.created", payload=payload, key="k")
    assert "Event 5" in web.text


async def test_watches(web: Browser, shop: rota.App, conn: Any) -> None:
    await web.get("/watches")
    assert "No table is watched" in web.text
    conn.execute("CREATE TABLE orders (id int)")
    watch = await shop.watches.add("orders", when="new.id > 0", on="insert")
    await shop.jobs.update("send", events=["orders.*"])
    conn.execute(f"DROP TRIGGER rota_watch_{watch.id}_insert ON orders")
    await web.get("/watches")
    assert "public.orders" in web.text
    assert "was dropped" in web.text
    assert "orders.* send" in web.text
    await web.get(f"/watches/{watch.id}/remove")
    await web.post(f"/watches/{watch.id}/remove", reason="done")
    assert "is removed" in web.text
    await web.get(f"/watches/{watch.id}/remove", 404)
