"""How a viewer likes it, and what is kept."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.acting import audit, both_ways, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts("/preferences")
async def test_zone_and_theme(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/settings")
    await tab.page.fill("[name=zone]", "Asia/Tokyo")
    await tab.page.locator("[name=theme][value=dark]").check(force=True)
    await tab.page.click("text=Save preferences")
    await expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")
    await tab.open("/runs")
    await expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(tab.page.locator(".side-foot")).to_contain_text("Asia/Tokyo")


@both_ways
@acts("/settings/retention")
async def test_a_pass_of_retention(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    place.conn.execute(
        "UPDATE rota.jobs SET retention = '{\"failed_count\": 1}' WHERE name = 'send_mail'"
    )
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/settings/retention")
    await tab.page.fill("[name=reason]", "tidy")
    await tab.page.locator("main button.primary").click()
    await done(tab, "A retention pass has been requested")
    assert audit(place)[1:] == ("grace", "tidy")
