"""The list of schedules and the page of one."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.model.strip import Strip, cell_of
from tests.web.conftest import Browser


@pytest.fixture
async def digest(shop: rota.App) -> rota.App:
    await shop.schedules.create(
        "digest", "send", cron="30 8 * * 1-5", timezone="Europe/Vienna", payload={"user_id": 7}
    )
    return shop


async def test_the_list(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules")
    assert "digest send" in web.text
    assert "30 8 * * 1-5" in web.text
    await web.get("/schedules?state=paused")
    assert "Nothing matches" in web.text
    await web.get("/schedules?order=next&job=send")
    assert "digest" in web.text


@pytest.mark.parametrize("query", ["order=x", "state=x", "cursor=x"])
async def test_what_makes_no_sense(web: Browser, query: str) -> None:
    await web.get(f"/schedules?{query}", 422)


async def test_its_page(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest")

    assert "In Europe/Vienna" in web.text
    assert web.text.count("08:30:00") == 10
    assert "Run once, for the latest missed time" in web.text
    assert "Skip this time, and record it." in web.text
    await web.get("/schedules/nope", 404)


async def test_paused_and_resumed(web: Browser, digest: rota.App, conn: Any) -> None:
    await web.get("/schedules/digest/pause")
    await web.post("/schedules/digest/pause", 422, reason="")
    assert "Say why" in web.text
    await web.post("/schedules/digest/pause", 422, reason="x", until="soon")
    assert "is no time" in web.text
    await web.post("/schedules/digest/pause", reason="new templates", until="2h")
    assert "Schedule digest is paused" in web.text
    assert "“new templates”" in web.text
    await web.get("/schedules/digest/resume")
    await web.post("/schedules/digest/resume", reason="done")
    assert "goes on" in web.text
    found = conn.execute(
        "SELECT action, actor, reason FROM rota.audit WHERE object_type = 'schedule' ORDER BY id"
    ).fetchall()
    assert found[-2:] == [
        ("schedule.paused", "web:admin", "new templates"),
        ("schedule.resumed", "web:admin", "done"),
    ]


async def test_run_now_with_another_payload(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/trigger")
    assert '"user_id": 7' in web.text
    await web.post("/schedules/digest/trigger", 422, payload="[]")
    await web.post("/schedules/digest/trigger", 422, payload='{"user_id": "x"}')
    assert "user_id" in web.text
    await web.post("/schedules/digest/trigger", payload='{"user_id": 8}', reason="asked for")
    assert "is enqueued" in web.text
    (run,) = await digest.runs.list()
    assert (run.payload["user_id"], run.triggered_by["schedule"]) == (8, "digest")


async def test_off_on_moved_and_deleted(web: Browser, digest: rota.App) -> None:
    await web.get("/schedules/digest/disable")
    await web.post("/schedules/digest/disable")
    assert "is disabled" in web.text
    await web.get("/schedules/digest/enable")
    await web.post("/schedules/digest/enable")
    assert "is enabled" in web.text
    await web.get("/schedules/digest/reschedule")
    await web.post("/schedules/digest/reschedule", 422, until="")
    await web.post("/schedules/digest/reschedule", until="30min")
    assert "is moved" in web.text
    await web.get("/schedules/digest/delete")
    await web.post("/schedules/digest/delete", reason="gone")
    assert "is deleted" in web.text
    await web.get("/schedules/digest", 404)


async def test_one_of_a_tenant(web: Browser, shop: rota.App) -> None:
    await shop.schedules.create("sync", "clean", every=60, tenant="a/b c")
    await web.get("/schedules")
    start = web.page.index('href="/schedules/sync?') + 6
    await web.get(web.page[start : web.page.index('"', start)])
    assert "a/b c" in web.text
    await web.get("/schedules/sync/pause?tenant=a/b c")
    await web.post("/schedules/sync/pause?tenant=a/b c", reason="x")
    assert "Schedule sync is paused" in web.text
    await web.get("/schedules/sync", 404)


async def test_hostile_names(web: Browser, shop: rota.App) -> None:
    name = '"><script>alert(1)</script>/x'
    await shop.schedules.create(name, "clean", every=60, description=name)
    await web.get("/schedules")
    assert "<script>alert" not in web.page
    start = web.page.index('href="/schedules/%22') + 6
    await web.get(web.page[start : web.page.index('"', start)])
    assert name in web.text


def test_a_strip_in_words() -> None:
    rows = [
        ("ran", None, "succeeded"),
        ("ran", None, "failed"),
        ("caught_up", None, "succeeded"),
        ("ran", None, "queued"),
        ("skipped", "overlap", None),
        ("skipped", "paused", None),
        ("missed", "window", None),
    ]
    strip = Strip(tuple(cell_of(*row) for row in rows))

    assert strip.cells == ("ok", "bad", "late", "run", "skip", "flat", "miss")
    assert strip.label.startswith("last 7 times: 1 succeeded, 1 failed")
