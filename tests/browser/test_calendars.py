"""What one does with calendars."""

from __future__ import annotations

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts("/calendars/new", "/calendars/{name}", "/calendars/{name}/delete")
async def test_made_edited_and_deleted(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/calendars/new")
    await tab.page.fill("[name=name]", "holidays")
    await tab.page.fill("[name=holidays]", "2026-12-25")
    await tab.page.locator("main button.primary").click()
    await done(tab, "Calendar holidays created")
    await tab.page.fill("[name=holidays]", "2026-12-25\n2026-12-26")
    await tab.page.fill("[name=reason]", "Boxing Day")
    await tab.page.locator("main button.primary").click()
    await done(tab, "Calendar holidays is saved")
    assert audit(place)[1:] == ("grace", "Boxing Day")
    await do(tab, "delete", said="Calendar holidays deleted")
