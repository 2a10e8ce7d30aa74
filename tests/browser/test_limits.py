"""What one does with limits."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.acting import audit, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab
from tests.sql_engine import Engine

pytestmark = BROWSER


@acts("/limits/new", "/limits/{name}/set", "/limits/{name}/remove")
async def test_made_changed_and_removed(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/limits/new")
    await tab.page.fill("[name=name]", "few")
    await tab.page.fill("[name=cap]", "5")
    await tab.page.fill("[name=queue]", "reports")
    await tab.page.fill("[name=reason]", "they asked")
    await tab.page.locator("main button.primary").click()
    await done(tab, "Limit few set for queue reports")
    assert audit(place) == ("limit.created", "grace", "they asked")
    await tab.open("/limits/few/set")
    await tab.page.fill("[name=cap]", "7")
    await tab.page.fill("[name=reason]", "more room")
    await tab.page.locator("main button.primary").click()
    await done(tab, "Limit few set for")
    assert audit(place) == ("limit.updated", "grace", "more room")
    await do(tab, "remove", reason="enough", said="Limit few removed")
    assert audit(place) == ("limit.removed", "grace", "enough")


@acts("/limits/{name}/unblock")
async def test_a_sequence_goes_on(place: Place, open_tab: OpenTab) -> None:
    engine = Engine(place.conn)
    job = "line one"
    engine.job(job)
    rule = f'{{"kind": "sequence", "next_after": "success", "jobs": ["{job}"]}}'
    engine.one("SELECT rota.set_limit(%s, %s)", job, rule)
    engine.enqueue(job, queue=job)
    worker = engine.worker(job, queues=[job])
    engine.one("SELECT admitted FROM rota.admit_runs()")
    engine.fail(worker, engine.claim_one(worker, queues=[job], jobs=[job]))
    engine.one("SELECT admitted FROM rota.admit_runs()")
    tab: Tab = await open_tab(place)
    await tab.open("/limits/line%20one")
    await do(tab, "unblock", reason="by hand", said=f"Limit {job} has 1 sequence unblocked")
    assert audit(place) == ("limit.unblocked", "grace", "by hand")


async def test_the_form_asks_for_what_its_kind_needs(everyday: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(everyday, scripts=False)
    await tab.open("/limits/new")
    period, after = tab.page.locator("#f-period_seconds"), tab.page.locator("[name=next_after]")
    await tab.page.locator("[name=kind][value=concurrency]").check()
    await expect(period).to_be_hidden()
    await expect(after.first).to_be_hidden()
    await tab.page.locator("[name=kind][value=rate]").check()
    await expect(period).to_be_visible()
    await expect(after.first).to_be_hidden()
    await tab.page.locator("[name=kind][value=sequence]").check()
    await expect(period).to_be_hidden()
    await expect(after.first).to_be_visible()
