"""The overview, and what needs attention on every page."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any
from unittest.mock import AsyncMock

import psycopg
import pytest

import rota
from rota.engine.metrics.rollups import Rollups
from rota.hints import OperationCall
from rota.operations.registry import NOUNS, commands_of
from rota.web import create_site
from rota.web.pages.live import topics_of
from rota.web.shared_reads import SharedReads
from rota.web.words import PAGES
from tests.sql_engine import Engine
from tests.web.conftest import Browser, browser_of

Conn = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _new_each_time(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """What a server knows is not older than the test, and there has been a run."""
    if "first_steps" not in request.node.name:
        monkeypatch.setattr("rota.web.pages.home.first_steps", AsyncMock(return_value=None))
    if "once" not in request.node.name:
        for name in ("SECONDS", "SLOW", "SLOW_ATTENTION"):
            monkeypatch.setattr(f"rota.web.shared_reads.{name}", 0.0)


async def fail(app: rota.App, job: str, times: int = 5) -> None:
    rollups = Rollups(app.database)
    rollups.worker = 7
    for _ in range(times):
        rollups.count(job, "mail", "failed", 5.0)
    await rollups.run_once()


def titled(page: str) -> str:
    found = re.search(r"<title>(.*?)</title>", page)
    assert found
    return unescape(found[1])


async def test_the_first_steps_tick_themselves_off(
    web: Browser, shop: rota.App, conn: Conn
) -> None:
    await web.get("/")
    assert "Your first run" in web.text
    assert "Done Declare a job" in web.text
    assert "rota worker --app" in web.text
    assert "Throughput" not in web.text
    Engine(conn).worker("send")
    await web.get("/")
    assert "Done Start a worker" in web.text
    await shop.runs.enqueue("send", {"user_id": 1})
    await web.get("/")
    assert "Your first run" not in web.text
    assert "Throughput" in web.text


async def test_the_first_steps_stay_done_when_runs_are_removed(
    web: Browser, shop: rota.App
) -> None:
    rollups = Rollups(shop.database)
    rollups.worker = 7
    for queue, is_shown in (("rota.system", True), ("mail", False)):
        rollups.count("send", queue, "succeeded", 5.0)
        await rollups.run_once()
        await web.get("/")
        assert ("Your first run" in web.text) == is_shown, queue


async def test_the_first_steps_where_nothing_is(app: rota.App, conn: Conn) -> None:
    """The command of each step is one that runs."""
    browser = browser_of(create_site(app, authenticate=lambda _: "grace"))
    async with browser.client:
        await browser.get("/")
        assert "Save this as hello.py" in browser.text
        assert """rota runs enqueue greet '{"name": "world"}'""" in browser.text
        conn.execute(
            "CREATE FUNCTION public.hello() RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'"
        )
        await app.jobs.create("hello", "public.hello")
        await browser.get("/")
        assert "The job hello is registered" in browser.text
        assert "rota runs enqueue hello" in browser.text


@pytest.mark.parametrize(
    ("schema", "command"),
    [
        ({}, "rota runs enqueue hello"),
        ({"required": ["a"], "properties": {"a": {"type": "string", "title": "A"}}},
         """rota runs enqueue hello '{"a": "world"}'"""),
        *(({"required": ["a"], "properties": {"a": {"type": "string"} | more}}, None) for more in (
            {"format": "date-time"}, {"enum": ["x"]}, {"const": "x"}, {"pattern": "x"},
            {"maxLength": 3}, {"type": "integer"}, {"type": ["string"]},
        )),
        *((odd, None) for odd in (
            {"required": ["a"]}, {"required": ["a"], "properties": ["a"]},
            {"required": ["a"], "properties": {"a": True}}, {"required": [["a"], None]},
        )),
        ({"required": 5, "properties": 5}, "rota runs enqueue hello"),
        ({"required": None, "properties": None}, "rota runs enqueue hello"),
        ([], "rota runs enqueue hello"),
    ],
)  # fmt: skip
async def test_the_command_of_the_first_steps_fits_the_job(
    app: rota.App, conn: Conn, schema: Any, command: str | None
) -> None:
    conn.execute(
        "CREATE FUNCTION public.hello() RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'"
    )
    await app.jobs.create("hello", "public.hello")
    conn.execute("UPDATE rota.jobs SET payload_schema = %s", [json.dumps(schema)])
    browser = browser_of(create_site(app, authenticate=lambda _: "grace"))
    async with browser.client:
        await browser.get("/")
        assert "The job hello is registered" in browser.text
        found = re.search(r"rota runs enqueue hello[^\n<]*", unescape(browser.page))
        assert (found and found[0]) == command
        for path in ("/complete/runs?q=payload:", "/runs/new?job=hello", "/jobs/hello"):
            await browser.get(path)


async def test_nothing_needs_you(web: Browser) -> None:
    await web.get("/")

    assert titled(web.page) == "Overview · Rota"
    assert "Nothing needs attention." in web.text
    for title in ("Throughput", "Failures", "Pick-up time", "Oldest waiting"):
        assert title in web.text
    assert "none this time yesterday" in web.text
    assert "No unhandled errors in the last hour." in web.text
    assert "Next 24 hours" in web.text


async def test_what_needs_attention_comes_first_with_one_button_each(
    web: Browser, shop: rota.App
) -> None:
    await fail(shop, "send", 5)
    await shop.queues.by("grace").pause("mail", "provider is down")
    await web.get("/")

    assert "2 things need attention" in web.text
    assert "Job send is failing: 5 of 5 attempts in the last hour" in web.text
    assert 'href="/errors?job=send"' in web.page
    assert "Queue mail is paused: nothing waits" in web.text
    assert "by grace: “provider is down”, no end set" in web.text
    assert web.page.index("2 things need") < web.page.index("Throughput")


async def test_the_button_of_a_paused_queue_resumes_it(web: Browser, shop: rota.App) -> None:
    await shop.queues.pause("mail", "down")
    await web.get("/")
    assert 'href="/queues/mail/resume"' in web.page
    await web.get("/queues/mail/resume")
    await web.post("/queues/mail/resume", reason="it is back")
    await web.get("/")

    assert "Nothing needs attention." in web.text


async def test_the_button_of_a_paused_tenant_resumes_it(web: Browser, shop: rota.App) -> None:
    await shop.tenant("acme").runs.enqueue("send", {"user_id": 1}, delay=3600)
    await shop.tenants.pause("acme", "unpaid")
    await web.get("/")
    assert "Tenant acme is paused: 1 run waits" in web.text
    assert 'href="/tenants/acme/resume"' in web.page
    await web.get("/tenants/acme/resume")
    await web.post("/tenants/acme/resume", reason="paid")
    await web.get("/")
    assert "Nothing needs attention." in web.text


async def test_what_this_server_changes_is_seen_at_once(web: Browser) -> None:
    await web.get("/")
    assert "Nothing needs attention." in web.text
    await web.get("/queues/mail/pause")
    await web.post("/queues/mail/pause", reason="down")
    await web.get("/")
    assert "Queue mail is paused" in web.text


async def test_the_count_is_on_every_page_and_in_its_title(web: Browser, shop: rota.App) -> None:
    await shop.queues.pause("mail", "down")
    await web.get("/runs")

    assert titled(web.page).startswith("(1) Runs")
    assert 'title="1 needs attention"' in web.page
    assert 'title="1 full or paused"' in web.page


async def test_the_navigation_alone(web: Browser, shop: rota.App) -> None:
    await shop.queues.pause("mail", "down")
    await web.get("/navigation?section=runs", **{"X-Rota-Part": "nav"})

    assert web.page.lstrip().startswith('<nav class="nav"')
    assert 'data-attention="1"' in web.page
    assert 'href="/runs" aria-current="page"' in web.page


@pytest.mark.parametrize(("span", "steps"), [("1h", 60), ("6h", 72), ("24h", 96), ("7d", 84)])
async def test_charts_have_a_range(web: Browser, shop: rota.App, span: str, steps: int) -> None:
    await fail(shop, "send", 3)
    await web.get(f"/?range={span}")

    assert re.search(rf'range={span}" aria-current="true"', web.page)
    assert "3, 100 % of all" in web.text
    found = [json.loads(unescape(it)) for it in re.findall(r'data-chart="([^"]*)"', web.page)]
    assert [len(it["times"]) for it in found] == [steps] * 4
    assert [label for label, _ in found[1]["lines"]] == ["failed", "yesterday"]
    assert any(value != "0" for value in found[1]["lines"][0][1])


async def test_a_range_that_is_none_is_an_hour(web: Browser) -> None:
    await web.get("/?range=<script>")
    assert 'range=1h" aria-current="true"' in web.page


async def test_what_fails_and_what_comes(web: Browser, shop: rota.App, conn: Conn) -> None:
    engine = Engine(conn)
    worker = engine.worker("boom")
    await shop.runs.enqueue("boom", {"text": "x"})
    claim = engine.claim_one(worker, jobs=["boom"])
    engine.fail(worker, claim, "ValueError: <b>no</b>\n  more")
    engine.one("SELECT rota.fold_errors()")
    await shop.schedules.put("nightly", "clean", every=3600)
    await web.get("/")

    assert "ValueError ValueError: <b>no</b> boom new 1" in web.text
    (group,) = await shop.errors.list()
    assert f'href="/errors/{group.id}"' in web.page
    assert 'href="/calendar"' in web.page
    await shop.errors.handle(group.id, "seen")
    assert "<b>no</b>" not in web.page
    assert "nightly" in web.text
    assert "24 runs planned" in web.text or "being counted" in web.text
    await web.get("/")
    assert "No unhandled errors" in web.text


async def test_names_are_text_and_nothing_else(web: Browser, shop: rota.App) -> None:
    name = '<script>alert("x")</script>/a b?#%'
    await shop.queues.pause(name, 'because "<b>"')
    await web.get("/")

    assert "<script>alert" not in web.page
    assert name in web.text
    assert 'href="/queues/%3Cscript%3E' in web.page


async def test_more_than_a_few_are_counted(web: Browser, shop: rota.App) -> None:
    for number in range(8):
        await shop.queues.pause(f"q{number}", "x")
    await web.get("/")
    assert "8 things need attention" in web.text
    assert "and 3 more paused queues" in web.text


async def test_parts_alone(web: Browser) -> None:
    for part in ("attention", "plots", "rest"):
        await web.get("/", **{"X-Rota-Part": part})
        assert f'id="{part}"' in web.page
        assert "<html" not in web.page


async def test_below_a_prefix_all_leads_below_it(make_app: Any) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app: rota.App = make_app()
    await app.queues.pause("mail", "x")
    site = create_site(app, authenticate=lambda request: "ada")
    browser = browser_of(Starlette(routes=[Mount("/ops", site)]))
    async with browser.client:
        await browser.get("/ops/")
    inner = [
        it for it in re.findall(r'(?:href|src|data-from)="([^"#]+)"', browser.page) if it[0] == "/"
    ]
    assert inner
    assert all(it.startswith("/ops/") for it in inner)


async def test_dashboards_are_told_when_attention_changes(shop: rota.App) -> None:
    site = create_site(shop)
    state = site.state.rota
    watch = SharedReads(shop)
    await shop.queues.pause("other", "x")
    stream = topics_of(state.hub, None, watch, heartbeat=0.01)
    assert b"retry" in await anext(stream)
    await shop.queues.pause("mail", "x")
    watch.forget()
    told = b""
    while b"attention" not in told:
        told = await anext(stream)
    assert b"alarm" in told
    assert b"attention" not in await anext(stream), "that it goes on is no news"
    await stream.aclose()


async def test_what_is_read_once_serves_all(shop: rota.App, conn: Conn) -> None:
    watch = SharedReads(shop)
    first = await watch.attention()
    await shop.queues.pause("mail", "x")
    assert await watch.attention() is first
    watch.forget()
    second = await watch.attention()
    assert second is not None
    assert second.total == 1
    trend = await watch.trend(timedelta(hours=1))
    assert await watch.trend(timedelta(hours=1)) is trend
    assert await watch.trend(timedelta(hours=6)) is not trend


async def test_the_page_that_a_hint_names_is_there(web: Browser) -> None:
    for many in NOUNS:
        if hasattr(commands_of(many), "list"):
            await web.get(commands_of(many).noun.home or f"/{many}")
            title = unescape(re.findall(r"<title>(.*?) · Rota</title>", web.page)[0])
            assert PAGES.call(OperationCall(many, "list")) == f"the page {title}"
