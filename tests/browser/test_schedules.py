"""What one does with schedules."""

from __future__ import annotations

import asyncio

from playwright.async_api import expect

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@acts(*(f"/schedules/{{name}}/{verb}" for verb in ("trigger", "pause", "resume", "reschedule")))
async def test_when_it_runs(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/schedules/digest")
    await do(tab, "trigger", payload='{"fails": true}', said="Schedule digest enqueued run")
    await do(tab, "pause", reason="new templates", until="2h", said="Schedule digest paused until")
    assert audit(place) == ("schedule.paused", "grace", "new templates")
    await do(tab, "resume", reason="done", said="Schedule digest resumed")
    await do(tab, "reschedule", at="3h", reason="later", said="Schedule digest runs next at")
    assert audit(place) == ("schedule.rescheduled", "grace", "later")


@acts(*(f"/schedules/{{name}}/{verb}" for verb in ("disable", "enable", "delete")))
async def test_whether_it_runs(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/schedules/digest")
    await do(tab, "disable", reason="not now", said="Schedule digest disabled")
    await do(tab, "enable", reason="now", said="Schedule digest enabled")
    await do(tab, "delete", reason="gone", said="Schedule digest deleted")
    assert audit(place) == ("schedule.deleted", "grace", "gone")


@both_ways
@acts("/schedules/new", "/schedules/{name}/edit", "/schedules/{name}/revert/{entry}")
async def test_made_edited_and_reverted(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    page = tab.page
    await tab.open("/schedules/new")
    await page.fill("[name=name]", "nightly")
    await page.fill("[name=job]", "nightly_report")
    await page.fill("[name=cron]", "0 3 * * *")
    await page.locator("aside [name=save]").click()
    await done(tab, "nightly")
    assert (await place.app.schedules.get("nightly")).cron == "0 3 * * *"

    await page.locator('main a[href*="/edit"]').first.click()
    await page.fill("[name=cron]", "0 4 * * *")
    await page.fill("[name=reason]", "later")
    await page.locator("aside [name=save]").click()
    await done(tab, "1 change of nightly saved")
    assert (await place.app.schedules.get("nightly")).cron == "0 4 * * *"
    await do(tab, "revert/", reason="earlier", said="The edit of nightly is reverted")
    assert (await place.app.schedules.get("nightly")).cron == "0 3 * * *"


async def test_what_is_typed_is_said_at_once(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/schedules/digest/edit")
    await tab.page.fill("[name=cron]", "0 4 * * 1")
    await expect(tab.page.locator("#side")).to_contain_text("Every Monday at 04:00")
    await tab.page.fill("[name=cron]", "0 4 32 * *")
    await expect(tab.page.locator("main")).to_contain_text("Fix 1 field first: cron")


async def test_a_conflict_names_the_other(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    await tab.open("/schedules/digest/edit")
    await place.app.schedules.update("digest", cron="0 9 * * *")
    await tab.page.fill("[name=cron]", "0 4 * * 1")
    await tab.page.locator("aside [name=save]").click()
    await expect(tab.page.locator("[role=alert]")).to_contain_text("Not saved")


@both_ways
@acts("/schedules/{name}/backfill")
async def test_backfill_after_a_look(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/schedules/paused/backfill")
    await tab.page.click("text=Show which times")
    await tab.page.fill("form[method=post] [name=reason]", "the provider was down")
    await tab.page.locator("form[method=post] button.primary").click()
    await done(tab, "of paused enqueued")
    assert audit(place)[1:] == ("grace", "the provider was down")


@both_ways
@acts("/schedules/{name}/reset")
async def test_back_to_the_code(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    await asyncio.to_thread(place.app.schedule, "poll", "nightly_report", every=60)
    await place.app.schedules.update("poll", every=90)
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/schedules/poll")
    await do(tab, "reset", reason="fixed", said="Reset to the code: interval")
    assert (await place.app.schedules.get("poll")).interval_seconds == 60


@both_ways
@acts("/selected/schedules")
async def test_the_selected(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/schedules?order=next")
    for name in ("digest", "hourly", "paused"):
        await tab.page.get_by_label(f"Select {name}", exact=True).check()
    await tab.page.locator("button[value=pause]").click()
    question = tab.page.locator("form.dialog")
    await expect(question.locator("h1")).to_have_text("Pause 2 schedules?")
    await question.locator("button.primary").click()
    await expect(question.locator("#e-reason")).to_contain_text("Enter a reason")
    await question.locator("[name=reason]").fill("the provider is down")
    await question.locator("button.primary").click()
    await done(tab, "Pause: 2 schedules")
    assert (await place.app.schedules.get("paused")).pause_reason != "the provider is down"
    assert tab.page.url == f"{place.base}/schedules?order=next"
    paused = await place.app.schedules.list(state="paused")
    assert {one.name for one in paused} == {"digest", "hourly", "paused"}


async def test_keys_move_over_schedules_not_over_their_switches(
    place: Place, open_tab: OpenTab
) -> None:
    tab: Tab = await open_tab(place)
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.open("/schedules")
    keys = tab.page.keyboard
    await keys.press("j")
    await keys.press("y")
    await expect(tab.page.locator(".toast").first).to_have_text("Copied")
    assert await tab.page.evaluate("navigator.clipboard.readText()") == "digest"
    await keys.press("x")
    await expect(tab.page.locator("[data-picked]")).to_have_text("1 schedule selected")
    await keys.press("Escape")
    await keys.press("Enter")
    await tab.page.wait_for_url(f"{place.base}/schedules/digest")


async def test_a_question_is_answered_where_it_was_asked(place: Place, open_tab: OpenTab) -> None:
    """The needed field has the focus, what is wrong is told in the dialog, and the list stays."""
    tab: Tab = await open_tab(place)
    await tab.open("/schedules?job=send_mail")
    row = tab.page.locator('tr[data-id="digest"]')
    await row.locator("summary").click()
    await row.locator("text=Pause…").click()
    dialog = tab.page.locator("#dialog")
    await expect(dialog.locator("[name=reason]")).to_be_focused()
    await dialog.locator("[name=until]").fill("soon")
    await tab.page.keyboard.press("Enter")
    await expect(dialog.locator("[name=until]")).to_be_focused()
    await expect(dialog.locator("[name=until]")).to_have_attribute("aria-invalid", "true")
    await dialog.locator("[name=until]").fill("2h")
    await dialog.locator("[name=reason]").fill("new templates")
    await tab.page.keyboard.press("Enter")
    await done(tab, "Schedule digest paused until")
    assert tab.page.url == f"{place.base}/schedules?job=send_mail"
    await tab.page.locator("#toasts a").click()
    await tab.page.wait_for_url(f"{place.base}/schedules/digest")
    await do(tab, "delete", reason="gone", said="Schedule digest deleted")
    assert tab.page.url == f"{place.base}/schedules", "its page is gone"
