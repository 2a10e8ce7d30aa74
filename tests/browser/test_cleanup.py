"""What one does with cleanups."""

from __future__ import annotations

from tests.browser.acting import audit, both_ways, do, done
from tests.browser.conftest import BROWSER, OpenTab, Place, acts
from tests.browser.tabs import Tab

pytestmark = BROWSER


@both_ways
@acts("/cleanup/add", "/cleanup/{name}/run", "/cleanup/{name}/remove")
async def test_added_run_and_removed(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    table = f"visits_{scripts}".lower()
    place.conn.execute(f"CREATE TABLE public.{table} (at timestamptz)".encode())
    tab: Tab = await open_tab(place, scripts=scripts)
    await tab.open("/cleanup/add")
    for name, value in {
        "table": table,
        "column": "at",
        "older_than_seconds": "7d",
        "reason": "full",
    }.items():
        await tab.page.fill(f"[name={name}]", value)
    await tab.page.locator("main button.primary").click()
    await done(tab, f'"cleanup_{table}" is added')
    assert audit(place) == ("schedule.created", "grace", "full")
    await do(tab, "run", reason="now", said=f"Cleanup cleanup_{table} is enqueued as run")
    await do(tab, "remove", reason="enough", said=f"Cleanup cleanup_{table} is removed")
    assert ("schedule.deleted", "grace", "enough") in place.conn.execute(
        "SELECT action, actor, reason FROM rota.audit ORDER BY id DESC LIMIT 3"
    ).fetchall()


@both_ways
@acts("/cleanup/add-recipe")
async def test_a_recipe(place: Place, open_tab: OpenTab, scripts: bool) -> None:
    table = f"s{scripts}_magic_links".lower()
    place.conn.execute(f"CREATE TABLE public.{table} (expires_at timestamptz)".encode())
    tab: Tab = await open_tab(place, scripts=scripts)
    prefix = f"public.s{scripts}_".lower()
    await tab.open(f"/cleanup/add-recipe?recipe=expired_auth_cleanup&prefix={prefix}")
    await tab.page.fill("form.dialog [name=reason]", "wanted")
    await tab.page.locator("form.dialog button.primary").click()
    await done(tab, '"expired_auth_cleanup" is added')
    assert audit(place) == ("schedule.created", "grace", "wanted")
    place.conn.execute("DELETE FROM rota.schedules WHERE name = 'expired_auth_cleanup'")
