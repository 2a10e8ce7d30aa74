"""What one does with workers."""

from __future__ import annotations

from tests.browser.acting import audit, do
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@acts("/workers/{id:int}/drain", "/workers/{id:int}/resume", "/workers/{id:int}/stop")
async def test_drain_resume_and_stop(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    worker = place.world.parts["worker"]
    await tab.open(f"/workers/{worker}")
    await do(tab, "drain", reason="new kernel", said=f"Worker {worker} is draining")
    assert audit(place)[1:] == ("grace", "new kernel")
    await do(tab, "resume", reason="not today", said=f"Worker {worker} is resumed")
    await do(
        tab,
        "stop",
        reason="moved",
        said=f"Worker {worker} is draining, then stops",
    )
    assert audit(place)[1:] == ("grace", "moved")
