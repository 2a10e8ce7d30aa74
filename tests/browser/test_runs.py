"""What one does with runs."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts("/runs/{id:int}/cancel", "/runs/{id:int}/retry", "/runs/{id:int}/delete")
async def test_one_run(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    run = place.world.runs["queued"]
    await tab.open(f"/runs/{run}")
    await do(tab, "cancel", reason="a mistake", said=f"Run {run} is cancelled")
    assert audit(place) == ("run.cancelled", "grace", "a mistake")
    await do(tab, "retry?edit", payload='{"fails": true}', said=f"Run {run} was requeued")
    assert (await place.app.runs.get(run)).payload == {"fails": True}
    await do(tab, "cancel", reason="", said=f"Run {run} is cancelled")
    await do(tab, "retry", reason="again", said=f"Run {run} was requeued")
    await do(tab, "cancel", reason="", said=f"Run {run} is cancelled")
    await do(tab, "delete", reason="tidy", said=f"Run {run} is deleted")
    assert audit(place) == ("run.deleted", "grace", "tidy")


@acts("/runs/{id:int}/handle", "/runs/{id:int}/reopen")
async def test_a_dead_letter(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    run = place.world.runs["failed"]
    await tab.open(f"/runs/{run}")
    await do(tab, "handle", reason="sent by hand", said=f"Run {run} handled")
    assert audit(place)[1:] == ("grace", "sent by hand")
    await do(tab, "reopen", reason="it was not", said=f"Run {run} reopened")


@both_ways
@acts("/runs/new")
async def test_enqueue(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/runs/new?job=send_mail")
    await tab.page.fill('[name="p.data"]', "{")
    await tab.page.click("text=Enqueue 1 run")
    await expect(tab.page.locator("main")).to_contain_text("not JSON")
    await tab.page.fill('[name="p.data"]', '{"order": 9007199254740993}')
    await tab.page.click("text=Enqueue 1 run")
    await done(tab, "is enqueued")
    await expect(tab.page.locator("main")).to_contain_text("9007199254740993")


@both_ways
@acts("/runs/selected")
async def test_the_selected(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/runs?state=failed")
    for box in await tab.page.locator("[data-row] input[type=checkbox]").all():
        await box.check()
    await tab.page.locator("button[value=retry]").click()
    question = tab.page.locator("form.dialog")
    await question.locator("[name=reason]").fill("the provider is back")
    await question.locator("button.primary").click()
    await done(tab, "2 runs were requeued")


@both_ways
@acts("/runs/views", "/runs/views/{name}/delete")
async def test_views(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/runs?state=failed&job=send_mail")
    await do(tab, "runs/views?", name="Mail that failed", said="View Mail that failed is saved")
    await tab.open("/runs")
    await tab.page.locator("details.menu summary", has_text="Views").click()
    await tab.page.click("text=Mail that failed")
    await expect(tab.page).to_have_url(f"{place.base}/runs?state=failed&job=send_mail")
    view = "runs/views/Mail%20that%20failed/delete"
    await do(tab, view, said="View Mail that failed is deleted")


@acts(*(f"/bulk/{{id:int}}/{verb}" for verb in ("throttle", "pause", "resume", "stop")))
async def test_a_bulk_action(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open(place.world.path("/bulk/{bulk}"))
    await tab.page.fill("[name=rate]", "5")
    await tab.page.locator('form[action$="/throttle"] button').click()
    await done(tab, "Bulk action")
    await do(tab, "pause", reason="lunch", said="is paused")
    assert audit(place)[1:] == ("grace", "lunch")
    await do(tab, "resume", reason="back", said="is resumed")
    await do(tab, "stop", reason="enough", said="is stopped")
    assert audit(place)[1:] == ("grace", "enough")


async def test_lists_drop_columns_before_they_stack(everyday: Place, open_tab: OpenTab) -> None:
    """Above 720 px of room a list is a table, and what is said in words is not cut."""
    tab: Tab = await open_tab(everyday, width=1000)
    for path in ("/runs", "/schedules", "/queues", "/workers", "/jobs", "/errors", "/audit"):
        await tab.open(path)
        table = tab.page.locator("table.grid.st").first
        await expect(table).to_have_css("display", "table")
        await tab.page.set_viewport_size({"width": 700, "height": 900})
        await expect(table).to_have_css("display", "block")
        await tab.page.set_viewport_size({"width": 1000, "height": 900})
    await tab.open("/")
    sentences = tab.page.locator(".attend .what > p:first-child")
    assert await sentences.evaluate_all(
        "all => all.every(one => one.scrollWidth <= one.clientWidth)"
    )


async def test_names_turn_nothing_around(hostile: Place, open_tab: OpenTab) -> None:
    """An override of the direction ends with the name that contains it."""
    tab: Tab = await open_tab(hostile)
    for path, name in (("/queues", ".name bdi"), ("/runs", ".name a"), ("/runs", ".qn")):
        await tab.open(path)
        await expect(tab.page.locator(name).first).to_have_css("unicode-bidi", "isolate")
