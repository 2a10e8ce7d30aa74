"""Search and palette: every thing is found from anywhere, and can be acted on."""

from __future__ import annotations

from typing import Any

import psycopg

import rota
from tests.web.conftest import Browser

Conn = psycopg.Connection[Any]


async def test_every_page_has_the_way_to_it(web: Browser) -> None:
    for path in ("/runs", "/queues", "/schedules", "/logs"):
        await web.get(path)
        assert 'class="jump" href="/search"' in web.page
        assert 'id="palette"' in web.page


async def test_a_run_is_found_by_its_id_and_can_be_acted_on(
    web: Browser, shop: rota.App, conn: Conn
) -> None:
    await shop.runs.list()
    (number,) = conn.execute("SELECT rota.enqueue('clean')").fetchone() or (0,)
    await web.get(f"/search?q={number}")
    assert f'href="/runs/{number}"' in web.page
    assert f'href="/runs/{number}/cancel" data-dialog' in web.page
    assert "Retry" not in web.text  # it has not failed
    await web.get(f"/runs/{number}/cancel")
    assert web.response.status_code == 200


async def test_a_verb_and_a_name_lead_to_the_question(web: Browser, shop: rota.App) -> None:
    await shop.runs.list()
    await web.get("/search?q=pause+mail")
    assert 'href="/queues/mail/pause" data-dialog' in web.page
    await shop.queues.pause("mail", "no provider")
    await web.get("/search?q=pause+mail")
    assert "/queues/mail/pause" not in web.page
    await web.get("/search?q=resume+ma")
    assert 'href="/queues/mail/resume"' in web.page


async def test_schedules_of_tenants_and_strange_names(web: Browser, shop: rota.App) -> None:
    await shop.schedules.create("a/b c", "clean", cron="@daily", tenant="blue")
    await web.get("/search?q=a/b")
    assert 'href="/schedules/a%2Fb%20c?tenant=blue"' in web.page
    assert 'href="/schedules/a%2Fb%20c/trigger?tenant=blue"' in web.page
    await web.get("/schedules/a%2Fb%20c?tenant=blue")


async def test_sections_and_nothing(web: Browser, shop: rota.App) -> None:
    await web.get("/search")
    assert "Go to" in web.text
    await web.get("/search?q=sched")
    assert 'href="/schedules"' in web.page
    await web.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in web.page
    assert "Search runs for “<script>alert(1)</script>”" in web.text
    await web.get("/search?q=" + "x" * 5000)


async def test_what_is_no_name_is_searched_for(web: Browser, shop: rota.App) -> None:
    run = await shop.runs.enqueue("send", {"user_id": 98, "locale": "Edsger"})
    await web.get("/search?q=Edsger 98")
    assert "Search runs for “Edsger 98” Search logs for “Edsger 98”" in web.text
    for path in ("/runs?text=Edsger&amp;text=98", "/logs?q=Edsger+98", "/errors?text=Edsger"):
        assert f'href="{path}' in web.page
    await web.get("/runs?text=Edsger&text=98")
    assert f">{run.id}</a>" in web.page
    await web.get("/search?q=98")
    assert 'href="/runs?text=98"' in web.page, "not the run with that id"
    await web.get("/search?q=lamp -timeout -job:send")
    assert 'href="/runs?text=lamp&amp;-text=timeout&amp;-text=job%3Asend"' in web.page


async def test_a_script_asks_for_the_hits_alone(web: Browser, shop: rota.App) -> None:
    await shop.runs.list()
    page = await web.get("/search?q=send", **{"X-Rota-Part": "hits"})
    assert page.lstrip().startswith('<div class="hits">')
    assert "<html" not in page


async def test_the_keys_are_a_page(web: Browser) -> None:
    await web.get("/keys")
    assert "pause or resume live updates" in web.text
    page = await web.get("/keys", **{"X-Rota-Part": "question"})
    assert "<html" not in page
