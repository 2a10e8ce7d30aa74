"""What one does with jobs."""

from __future__ import annotations

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts(*(f"/jobs/{{name}}/{verb}" for verb in ("edit", "follow", "disable", "enable")))
async def test_settings(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/jobs/send_mail")
    await tab.page.locator('main a[href$="/edit"]').first.click()
    await tab.page.fill("[name=max_attempts]", "7")
    await tab.page.fill("[name=reason]", "a flaky provider")
    await tab.page.click("text=Save settings")
    await done(tab, "1 setting of send_mail saved")
    assert audit(place)[1:] == ("grace", "a flaky provider")
    await do(tab, "follow", reason="fixed", said="Reset to the code")
    assert (await place.app.jobs.get("send_mail")).max_attempts == 1
    await do(tab, "disable", reason="not now", said="Job send_mail disabled")
    await do(tab, "enable", reason="now", said="Job send_mail enabled")


@acts("/jobs/{name}/rename")
async def test_rename(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    place.conn.execute("INSERT INTO rota.jobs (name) VALUES ('old_name')")
    await tab.open("/jobs/old_name")
    await do(tab, "rename", new_name="present_name", reason="clearer", said="renamed")
    assert audit(place) == ("job.renamed", "grace", "clearer")
    assert (await place.app.jobs.get("present_name")).name == "present_name"


@acts("/jobs/{name}/delete")
async def test_delete(place: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(place)
    place.conn.execute("INSERT INTO rota.jobs (name) VALUES ('old_job')")
    await tab.open("/jobs/old_job")
    await do(tab, "delete", reason="gone", said="Job old_job deleted")


@both_ways
@acts("/jobs/new")
async def test_a_sql_job_is_made(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    place.conn.execute(
        "CREATE FUNCTION public.tidy(payload jsonb) RETURNS jsonb LANGUAGE sql AS"
        " $$ SELECT '{}'::jsonb $$"
    )
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/jobs/new")
    await tab.page.check('[name=function_name][value="public.tidy"]')
    await tab.page.fill("[name=name]", "tidy")
    await tab.page.click("text=Create job")
    await done(tab, "Job tidy is created")
    assert (await place.app.jobs.get("tidy")).function_name == "public.tidy"
