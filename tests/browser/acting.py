"""What somebody does with a page."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Place
from tests.browser.tabs import Tab

# With scripts, questions are asked in a dialog; without, on a page. Declared operations share a
# form, which tests/operations/test_faces.py sends without scripts: here they have scripts.
both_ways = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])


async def do(tab: Tab, verb: str, *, said: str, **fields: str) -> None:
    """Follow the link, fill in the question, send it, and read what was done."""
    link = tab.page.locator(f'main a[href*="/{verb}"]').first
    await link.wait_for(state="attached")  # the page may just be coming
    menu = link.locator("xpath=ancestor::details[not(@open)]")
    if await menu.count():
        await menu.locator("summary").click()
    await link.click()
    question = tab.page.locator("form.dialog")
    for name, value in fields.items():
        await question.locator(f'[name="{name}"]').fill(value)
    await question.locator("button.primary").click()
    await done(tab, said)


async def done(tab: Tab, said: str) -> None:
    await expect(tab.page.locator("#toasts")).to_contain_text(said)


def audit(place: Place) -> tuple[str, str, str]:
    """The last entry: what, by whom, and why."""
    found = place.conn.execute(
        "SELECT action, actor, reason FROM rota.audit ORDER BY id DESC LIMIT 1"
    ).fetchone()
    assert found is not None
    return found
