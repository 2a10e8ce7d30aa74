"""What one does with events and watched tables."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts("/events/replay", "/watches/{id:int}/remove")
async def test_replay_and_stop_watching(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open(f"/events/{place.world.parts['event']}")
    job = place.world.words.job
    await do(tab, "replay", job=job, reason="bound late", said="started 1 run")
    assert audit(place) == ("event.replayed", "grace", "bound late")
    await tab.open(f"/events/{place.world.parts['event']}")
    await expect(tab.page.locator("main")).to_contain_text("replayed by grace")
    await tab.open("/watches")
    await expect(tab.page.locator("main")).to_contain_text("was dropped")
    await do(tab, "remove", reason="no more", said="is removed")
    assert audit(place) == ("watch.deleted", "grace", "no more")


async def test_count_first(place: Place, open_tab: OpenTab) -> None:
    """The dialog stays and tells what would be done. Enter does it."""
    tab: Tab = await open_tab(place)
    await tab.open(f"/events/{place.world.parts['event']}")
    await tab.page.locator('main a[href*="/replay"]').first.click()
    dialog = tab.page.locator("#dialog")
    await dialog.locator("[name=job]").fill(place.world.words.job)
    await dialog.get_by_role("button", name="Count first").click()
    await expect(dialog).to_contain_text("1 event: would start 1 run")
    assert await dialog.locator("[name=job]").input_value() == place.world.words.job
    await dialog.locator("[name=reason]").fill("bound late")
    await tab.page.keyboard.press("Enter")
    await done(tab, "started 1 run")
    assert audit(place) == ("event.replayed", "grace", "bound late")


@acts("/watches/add")
async def test_watch_a_table(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/watches/add")
    await tab.page.fill("[name=table]", "public.sessions")
    await tab.page.fill("[name=reason]", "to see who comes")
    await tab.page.locator("main button.primary").click()
    await expect(tab.page.locator("main")).to_contain_text("public.sessions")
    assert audit(place) == ("watch.created", "grace", "to see who comes")


@acts("/events/emit")
async def test_emit(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/events")
    await do(tab, "emit", event="order.opened", reason="by hand", said="started nothing")
    assert "order.opened" in await tab.text("main")
