"""The editor of schedules while somebody types."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.conftest import BROWSER, OpenTab, Place
from tests.browser.tabs import Tab

pytestmark = BROWSER


async def test_nothing_is_missing_before_it_is_saved(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/schedules/digest/edit")
    async with tab.page.expect_response(lambda answer: answer.request.method == "POST"):
        await tab.page.locator("[name=when][value=interval_seconds]").check()
    await expect(tab.page.locator("#side")).to_contain_text("Your changes")
    await expect(tab.page.locator("#m-interval_seconds .err")).to_have_count(0)
    await expect(tab.page.locator("#side .diff")).not_to_contain_text(["none none"])
    await tab.page.locator("aside [name=save]").click()
    await expect(tab.page.locator("#m-interval_seconds .err")).to_contain_text("Required")
    await expect(tab.page.locator("#fix")).to_contain_text("Fix 1 field first: interval seconds")
    await tab.page.locator("#fix a").click()
    assert tab.page.url.endswith("#f-interval_seconds")


async def test_words_and_mistakes_while_one_types(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    page = tab.page
    await tab.open("/schedules/digest/edit")
    await page.fill("#f-cron", "30 2 32 * *")
    await expect(page.locator("#m-cron")).to_contain_text("it takes 1-31")
    await page.fill("#f-cron", "30 2 * * *")
    await expect(page.locator("#side .said")).to_contain_text("Every day at 02:30")
    await expect(page.locator("#f-cron-hour")).to_have_value("2")
    await page.locator("label.chip", has=page.locator("#b-hour-5")).click()
    await expect(page.locator("#f-cron")).to_have_value("30 2,5 * * *")
    await page.fill("#f-cron-minute", "10")
    await expect(page.locator("#f-cron")).to_have_value("10 2,5 * * *")
    await page.click("button.chip:has-text('Hourly')")
    await expect(page.locator("#f-cron")).to_have_value("0 * * * *")
    await expect(page.locator("#save")).to_have_text("Save 1 change")
    assert (await place.app.schedules.get("digest")).cron == "30 8 * * 1-5"
