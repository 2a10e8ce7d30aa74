"""What one does with tenants."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.acting import audit, both_ways, do
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts(
    "/tenants/{name}/pause", "/tenants/{name}/resume", "/tenants/{name}/set",
    "/tenants/{name}/reset", "/tenants/{name}/delete",
)  # fmt: skip
async def test_settings_pause_resume_and_deletion(
    place: Place, open_tab: OpenTab, scripts: bool
) -> None:
    place.conn.execute("SELECT rota.set_tenant('blue', '{\"weight\": 2}')")
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/tenants/blue")
    await do(tab, "set", reason="gold", max_waiting="100", said="Tenant blue is changed")
    assert audit(place) == ("tenant.set", "grace", "gold")
    await expect(tab.page.locator("main")).to_contain_text("100")
    await do(tab, "pause", reason="unpaid", until="2h", said="Tenant blue is paused")
    assert audit(place) == ("tenant.paused", "grace", "unpaid")
    await expect(tab.page.locator("main")).to_contain_text("“unpaid”")
    await do(tab, "resume", reason="paid", said="Tenant blue is resumed")
    assert audit(place) == ("tenant.resumed", "grace", "paid")
    await do(tab, "reset", reason="no longer gold", said="Tenant blue is reset to the defaults")
    assert audit(place) == ("tenant.reset", "grace", "no longer gold")
    place.conn.execute("SELECT rota.set_tenant('blue', '{\"weight\": 2}')")
    await tab.open("/tenants/blue")
    await do(tab, "delete", reason="left us", said="Tenant blue is deleted")
    assert audit(place) == ("tenant.deleted", "grace", "left us")
