"""What happens is seen without a reload, and never under the hand."""

from __future__ import annotations

from playwright.async_api import expect

from rota.testing import eventually
from tests.browser.conftest import BROWSER, Filled, OpenTab, Place
from tests.browser.tabs import Tab
from tests.proxy import Proxy

pytestmark = BROWSER


async def test_two_tabs_see_each_others_changes(place: Place, open_tab: OpenTab) -> None:
    """In one browser they share a stream; here each has its own, as two people have."""
    one, other = await open_tab(place), await open_tab(place)
    await one.open("/queues/mail")
    await other.open("/queues")
    row = other.page.locator("tr", has_text="mail")
    await expect(row).to_contain_text("Pause…")

    await one.page.click("text=Pause…")
    await one.page.fill("[name=reason]", "seen from over there")
    await one.page.click("button.primary")
    await expect(row).to_contain_text("seen from over there")

    await other.page.locator("tr", has_text="mail").locator("text=Resume…").click()
    await other.page.click("dialog button.primary")
    await expect(one.page.locator("main")).not_to_contain_text("seen from over there")


async def test_tabs_of_one_browser_share_a_stream(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    second = Tab(await tab.page.context.new_page(), tab.base)
    await second.open("/runs")
    run = await place.app.runs.enqueue("nightly_report", {})
    for one in (tab, second):
        await expect(one.page.locator(f'[data-id="{run.id}"]')).to_be_visible()
    assert not second.faults


async def test_a_list_holds_still_while_it_is_read(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    await tab.page.keyboard.press(".")
    await expect(tab.page.locator("[data-live-text]")).to_contain_text("Held")
    run = await place.app.runs.enqueue("nightly_report", {})
    row = tab.page.locator(f'[data-id="{run.id}"]')
    await expect(tab.page.locator("[data-live-text]")).to_contain_text("1 change")
    await expect(row).to_have_count(0)
    await tab.page.keyboard.press(".")
    await expect(row).to_be_visible()


async def test_a_row_that_is_chosen_holds_the_list(place: Place, open_tab: OpenTab) -> None:
    """Text that is being selected does."""
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    await tab.page.locator("tr[data-row] td.name").first.select_text()
    run = await place.app.runs.enqueue("nightly_report", {})
    row = tab.page.locator(f'[data-id="{run.id}"]')
    await expect(tab.page.locator("[data-live-text]")).to_contain_text("Held")
    await expect(row).to_have_count(0)
    await tab.page.keyboard.press("Escape")
    await expect(row).to_be_visible()


async def test_what_was_opened_stays_open(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    run = place.world.runs["failed"]
    await tab.open(f"/runs/{run}")
    first = tab.page.locator("details.attempt").first
    await first.locator("summary").first.click()
    await expect(first).not_to_have_attribute("open", "")
    async with tab.page.expect_response(lambda answer: answer.url.endswith(f"/runs/{run}")):
        await place.app.runs.enqueue("nightly_report", {})
    await expect(tab.page.locator("details.attempt").first).not_to_have_attribute("open", "")


async def test_a_hidden_tab_rests(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    await _be_seen(tab, False)
    await eventually(lambda: place.listeners == 0)
    run = await place.app.runs.enqueue("nightly_report", {})
    row = tab.page.locator(f'[data-id="{run.id}"]')
    await expect(row).to_have_count(0)
    await _be_seen(tab, True)
    await expect(row).to_be_visible()


async def _be_seen(tab: Tab, seen: bool) -> None:
    await tab.page.evaluate(
        """seen => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => !seen });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        seen,
    )


async def test_a_lost_server_is_told_and_found_again(filled: Filled, open_tab: OpenTab) -> None:
    async with filled.serve() as place:
        tab: Tab = await open_tab(place)
        await tab.open("/runs")
        await place.stop()
        await expect(tab.page.locator("[data-live-text]")).to_contain_text("Not live")
        run = await place.app.runs.enqueue("nightly_report", {})
        await place.start()
        await expect(tab.page.locator(f'[data-id="{run.id}"]')).to_be_visible()
        await expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
    tab.faults.clear()  # the browser tells of the stream that it lost


async def test_a_lost_database_is_told_and_found_again(filled: Filled, open_tab: OpenTab) -> None:
    """An open page says since when it is old; one that is opened meanwhile comes by itself."""
    async with filled.serve(proxy=Proxy) as place:
        assert place.proxy is not None
        tab, other = await open_tab(place), await open_tab(place)
        await tab.open("/runs")
        await expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
        place.proxy.refuse()
        place.proxy.reset()
        note, live = tab.page.locator("#stale"), tab.page.locator("[data-live-text]")
        await expect(note).to_contain_text("Not updated since")
        await expect(live).to_contain_text("the database is unavailable")
        await other.page.goto(f"{place.base}/queues")
        title = other.page.locator("h1")
        await expect(title).to_have_text("The database is unavailable")
        await expect(other.page.locator("#nav")).to_contain_text("Schedules")
        await expect(live).to_contain_text("Not updated since")
        place.proxy.heal()
        await expect(note).to_have_count(0)
        await expect(live).to_have_text("Live")
        await expect(title).to_have_text("Queues")
    for one in (tab, other):
        one.faults.clear()  # the answers of the outage


async def test_a_frozen_database_is_told(filled: Filled, open_tab: OpenTab) -> None:
    async with filled.serve(proxy=Proxy) as place:
        assert place.proxy is not None
        tab: Tab = await open_tab(place)
        await tab.open("/runs")
        await expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
        place.proxy.freeze()
        await expect(tab.page.locator("#stale")).to_contain_text("Not updated since")
        place.proxy.heal()
        await expect(tab.page.locator("#stale")).to_have_count(0)
    tab.faults.clear()  # the answers of the outage


async def test_copies_without_tls(place: Place, open_tab: OpenTab) -> None:
    """Browsers have no clipboard for pages that come over plain HTTP from another machine."""
    tab: Tab = await open_tab(place)
    await tab.page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {get: () => undefined})"
    )
    await tab.open(f"/runs/{place.world.runs['failed']}")
    await tab.page.locator("[data-copy]").first.click()
    await expect(tab.page.locator(".toast")).to_contain_text("Copied")
