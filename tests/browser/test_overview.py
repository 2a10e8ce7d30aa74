"""The overview: charts, and what needs attention on every page."""

from __future__ import annotations

from playwright.async_api import expect

from rota.engine.metrics.rollups import Rollups
from tests.browser.acting import done
from tests.browser.conftest import BROWSER, OpenTab, Place
from tests.browser.tabs import NARROW, Tab

pytestmark = BROWSER


async def _count(place: Place, outcome: str, times: int) -> None:
    rollups = Rollups(place.app.database)
    rollups.worker = 7
    for _ in range(times):
        rollups.count("send_invoice", "mail", outcome, 20.0)
    await rollups.run_once()


async def test_charts_are_drawn_and_tell_values_under_the_pointer(
    place: Place, open_tab: OpenTab
) -> None:
    await _count(place, "succeeded", 30)
    tab: Tab = await open_tab(place)
    await tab.open("/")
    await expect(tab.page.locator("[data-chart] .plot > svg")).to_have_count(4)
    box = await tab.page.locator("#throughput .plot > svg").bounding_box()
    assert box is not None
    await tab.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    tip = tab.page.locator("#throughput .tip")
    await expect(tip).to_contain_text("succeeded")
    await expect(tip).to_contain_text("yesterday")
    before = await tip.inner_text()
    await _count(place, "succeeded", 70)
    await expect(tip).not_to_have_text(before)
    await tab.page.mouse.move(0, 0)
    await expect(tip).to_be_hidden()


async def test_charts_go_on_by_themselves(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/")
    await expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
    await _count(place, "failed", 1234)
    await expect(tab.page.locator("#failures .figure b")).to_contain_text("1,2")
    await expect(tab.page.locator("#failures .plot > svg")).to_have_count(1)


async def test_a_range_is_chosen_and_survives_a_reload(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/")
    await tab.page.click(".seg >> text=24 h")
    await expect(tab.page.locator(".seg [aria-current]")).to_have_text("24 h")
    await tab.page.reload()
    await expect(tab.page.locator(".seg [aria-current]")).to_have_text("24 h")
    await expect(tab.page.locator("[data-chart] .plot > svg")).to_have_count(4)


async def test_without_scripts_charts_are_pictures(place: Place, open_tab: OpenTab) -> None:
    await _count(place, "failed", 3)
    tab: Tab = await open_tab(place, scripts=False)
    await tab.open("/")
    await expect(tab.page.locator("#failures .plot > svg")).to_be_visible()
    await expect(tab.page.locator("[data-live]")).to_be_hidden()


async def test_every_page_learns_what_needs_attention(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/runs")
    await expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
    before = int(await tab.page.locator("#nav").get_attribute("data-attention") or 0)
    await place.app.queues.pause("reports", "the printer is on fire")
    await expect(tab.page.locator("#nav")).to_have_attribute("data-attention", str(before + 1))
    await expect(tab.page).to_have_title(f"({before + 1}) Runs · Rota")


async def test_the_one_button_of_a_paused_queue(place: Place, open_tab: OpenTab) -> None:
    await place.app.queues.pause("reports", "the printer is on fire")
    tab: Tab = await open_tab(place, width=NARROW)
    await tab.open("/")
    row = tab.page.locator(".attend li", has_text="the printer is on fire")
    await row.locator("text=Resume…").click()
    await tab.page.fill("dialog [name=reason]", "it is out")
    await tab.page.click("dialog button.primary")
    await done(tab, "reports")
    await tab.open("/")
    await expect(row).to_have_count(0)
