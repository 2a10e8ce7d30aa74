"""What one does with queues."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts("/selected/queues")
async def test_the_selected(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/queues?text=m")
    await tab.page.get_by_label("Select mail", exact=True).check()
    await tab.page.locator("button[value=pause]").click()
    await tab.page.fill("form.dialog [name=reason]", "they refuse us")
    await tab.page.locator("form.dialog button.primary").click()
    await done(tab, "Pause: 1 queue")
    assert tab.page.url == f"{place.base}/queues?text=m"
    assert (await place.app.queues.get("mail")).queue.is_paused


@acts("/queues/{name}/pause", "/queues/{name}/resume")
async def test_pause_and_resume(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/queues/mail")
    await do(tab, "pause", reason="provider down", until="2h", said="Queue mail paused until")
    assert audit(place) == ("queue.paused", "grace", "provider down")
    await expect(tab.page.locator("main")).to_contain_text("“provider down”")
    await do(tab, "resume", reason="it is back", said="Queue mail resumed")
    assert audit(place) == ("queue.resumed", "grace", "it is back")


@acts("/queues/{name}/clear")
async def test_clear(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/queues/mail")
    await do(tab, "clear", reason="a flood", said="Queue mail is being cleared by bulk action")
    assert audit(place) == ("bulk.started", "grace", "a flood")


@acts("/queues/{name}/set", "/queues/{name}/reset")
async def test_a_cap(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/queues/mail")
    said = "Queue mail has at most 500 waiting runs"
    await do(tab, "set", reason="provider slow", max_waiting="500", said=said)
    assert audit(place) == ("queue.updated", "grace", "provider slow")
    await expect(tab.page.locator("main")).to_contain_text("at most 500, then new runs are refused")
    said = "Queue mail has no limit on waiting runs"
    await do(tab, "reset", reason="it is fast again", said=said)
    assert audit(place) == ("queue.updated", "grace", "it is fast again")
