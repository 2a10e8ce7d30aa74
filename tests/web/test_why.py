"""The panel that says why, on the pages that have it."""

from __future__ import annotations

from typing import Any

import psycopg

import rota
from tests.sql_engine import Engine
from tests.web.conftest import Browser


async def test_on_the_page_of_a_run(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await shop.queues.by("grace").pause("mail", "provider is down")
    await web.get(f"/runs/{run.id}")
    assert "Why is it waiting? Queue mail is paused by grace: “provider is down”." in web.text
    assert "What happens next. No run of the queue starts until somebody resumes it" in web.text
    assert '<button class="btn s ghost icon" type="button" data-copy="rota queues resume mail"' in (
        web.page
    )
    assert web.page.count('<a href="/queues/mail">Queue mail</a>') == 1, "named once"
    await web.get(f"/runs/{run.id}", **{"X-Rota-Part": "side"})
    assert "Queue mail is paused by grace" in web.text, "in the part that is renewed"


async def test_on_the_page_of_a_run_that_has_ended(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1})
    await shop.runs.by("grace").cancel(run.id, "wrong address")
    await web.get(f"/runs/{run.id}")
    assert "Why was it cancelled? It was cancelled by grace: wrong address." in web.text
    assert f"rota runs retry {run.id}" in web.text


async def test_on_the_page_of_a_schedule(web: Browser, shop: rota.App) -> None:
    await shop.schedules.create("digest", "clean", tenant="acme", cron="0 3 * * *")
    await shop.schedules.by("grace").pause("digest", "summer", tenant="acme")
    await web.get("/schedules/digest?tenant=acme")
    assert "Why is it not running? Schedule digest is paused by grace: “summer”." in web.text
    assert "rota schedules resume --tenant acme digest" in web.text


async def test_on_the_page_of_a_job(web: Browser, shop: rota.App) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await shop.jobs.by("grace").disable("send", "bad release")
    await web.get("/jobs/send")
    assert "Why is it waiting? Job send is disabled by grace: “bad release”." in web.text
    assert "rota jobs enable send" in web.text


async def test_on_the_page_of_a_queue(web: Browser, shop: rota.App) -> None:
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/queues/mail")
    assert "Why is it waiting? No worker is running." in web.text


async def test_it_leads_to_what_it_names(
    web: Browser, shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 1}, max_attempts=3)
    engine = Engine(conn)
    worker = engine.worker("send")
    engine.claim_one(worker, queues=["mail"], jobs=["send"])
    await web.get(f"/runs/{run.id}")
    assert "What is it doing? Worker" in web.text
    assert f'<a href="/workers/{worker}">' in web.page
    await web.get(f"/workers/{worker}")


async def test_hostile_words_do_nothing(
    web: Browser, shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    queue = "<script>alert(1)</script>\"'{{7*7}}"
    run = await shop.runs.enqueue("send", {"user_id": 1}, queue=queue)
    reason = "<img src=x onerror=alert(1)>" + "y" * 9000
    conn.execute("SELECT rota.pause_queue(%s, %s, actor => '<i>eve</i>')", [queue, reason])
    await web.get(f"/runs/{run.id}")
    assert "<script>alert" not in web.page
    assert "<img src=x" not in web.page
    assert "<i>eve" not in web.page
    assert "{{7*7}}" in web.text
    assert "y" * 300 not in web.page
