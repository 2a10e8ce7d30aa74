"""The pages of queues."""

from __future__ import annotations

from typing import Any

import rota
from tests.web.conftest import Browser


async def test_the_list(web: Browser, shop: rota.App) -> None:
    job = shop.registry.get("send")
    await shop.runs.enqueue(job.name, {"user_id": 1})
    await web.get("/queues")

    assert "mail active 1" in web.text
    assert "nobody serves it" in web.text


async def test_a_queue_is_paused_with_a_reason_and_resumed(
    web: Browser, shop: rota.App, conn: Any
) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/queues/mail/pause")
    assert "1 run and what comes will wait" in web.text
    await web.post("/queues/mail/pause", 422, reason=" ")
    assert "Say why" in web.text
    await web.post("/queues/mail/pause", reason="provider is down")
    assert "Queue mail is paused" in web.text
    assert "by web:admin: “provider is down”" in web.text
    await web.get("/queues/mail")
    assert "Queue mail is paused" not in web.text, "told once"

    await web.get("/queues/mail/resume")
    await web.post("/queues/mail/resume", reason="it is back")
    assert "Queue mail goes on" in web.text
    deeds = conn.execute("SELECT action, actor, reason FROM rota.audit ORDER BY id").fetchall()
    assert deeds[-2:] == [
        ("queue.paused", "web:admin", "provider is down"),
        ("queue.resumed", "web:admin", "it is back"),
    ]


async def test_a_queue_that_nobody_has_named(web: Browser) -> None:
    await web.get("/queues/nope", 404)

    assert "Not here" in web.text


async def test_names_are_text_and_nothing_else(web: Browser, conn: Any) -> None:
    name = '<script>alert("x")</script>/a b?#%'
    conn.execute("SELECT rota.pause_queue(%s, 'because <b>')", [name])
    await web.get("/queues")
    assert "<script>alert" not in web.page
    start = web.page.index('href="/queues/%3C') + 6
    await web.get(web.page[start : web.page.index('"', start)])

    assert name in web.text
    assert "because <b>" in web.text


async def test_a_part_alone(web: Browser) -> None:
    await web.get("/queues", 400, **{"X-Rota-Part": "nothing"})
    await web.get("/queues", **{"X-Rota-Part": "list"})

    assert web.page.lstrip().startswith('<div id="list"')
    assert "<html" not in web.page
