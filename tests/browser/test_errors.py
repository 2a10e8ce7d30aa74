"""What one does with errors."""

from __future__ import annotations

from tests.browser.acting import audit, do
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@acts("/errors/{id}/handle", "/errors/{id}/reopen")
async def test_handled_and_reopened(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open(place.world.path("/errors/{group}"))
    await do(tab, "handle", reason="a typo in the address", said="handled")
    assert audit(place)[1:] == ("grace", "a typo in the address")
    await do(tab, "reopen", reason="it is back", said="reopened")
    assert audit(place)[1:] == ("grace", "it is back")
