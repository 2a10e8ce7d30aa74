"""Keys that other tests leave out, and what is shown while a question is loaded."""

from __future__ import annotations

import asyncio

from playwright.async_api import Route, expect

from tests.browser.conftest import BROWSER, OpenTab, Place
from tests.browser.tabs import Tab

pytestmark = BROWSER


async def test_rows_are_selected_copied_and_opened(place: Place, open_tab: OpenTab) -> None:
    some = "SELECT rota.enqueue('nightly_report', '{}') FROM generate_series(1, 4)"
    assert len(place.conn.execute(some).fetchall()) == 4
    tab: Tab = await open_tab(place)
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.open("/runs?job=nightly_report&state=queued")
    keys, picked = tab.page.keyboard, tab.page.locator("[data-picked]")
    await keys.press("j")
    await keys.press("x")
    await expect(picked).to_have_text("1 run selected")
    await keys.press("j")
    await keys.press("j")
    await keys.press("Shift+X")
    await expect(picked).to_have_text("3 runs selected")
    await keys.press("k")
    await keys.press("Escape")
    await expect(picked).to_be_hidden()
    row = await tab.page.locator("[data-row].cursor").get_attribute("data-id")
    await keys.press("y")
    await expect(tab.page.locator(".toast").first).to_have_text("Copied")
    assert await tab.page.evaluate("navigator.clipboard.readText()") == row
    await keys.press("Enter")
    await tab.page.wait_for_url(f"**/runs/{row}")


async def test_the_page_is_held_and_sections_are_gone_to(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    live = tab.page.locator("[data-live-text]")
    await tab.page.keyboard.press(".")
    # It counts the changes that it holds, if there are any already.
    await expect(live).to_contain_text("Held")
    await tab.page.keyboard.press(".")
    await expect(live).to_have_text("Live")
    for key, section in (("s", "/schedules"), ("h", "/doctor"), ("r", "/runs"), ("o", "/")):
        await tab.page.keyboard.press("g")
        await tab.page.keyboard.press(key)
        await tab.page.wait_for_url(f"{place.base}{section}")


async def test_a_question_that_takes_long_shows_its_shape(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/queues")
    may_answer = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await tab.page.route("**/pause", hold)
    await tab.page.locator("a[data-dialog]").first.click()
    await expect(tab.page.locator("#dialog .skel")).to_be_visible()
    may_answer.set()
    await expect(tab.page.locator("#dialog .skel")).to_have_count(0)
    await expect(tab.page.locator("#dialog h1")).to_contain_text("Pause")
