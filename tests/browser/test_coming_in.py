"""Signing in and out, and how a viewer likes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import expect

from tests.browser.acting import both_ways
from tests.browser.conftest import BROWSER, TOKEN, Filled, OpenTab, Place, acts
from tests.browser.tabs import NARROW, Tab

pytestmark = BROWSER


@pytest_asyncio.fixture(loop_scope="session")
async def closed(filled: Filled) -> AsyncIterator[Place]:
    """A dashboard that asks for the token."""
    async with filled.serve(signs_in=True) as place:
        yield place


@both_ways
@acts("/sign-in", "/sign-out")
async def test_in_and_out(closed: Place, open_tab: OpenTab, scripts: bool) -> None:
    tab: Tab = await open_tab(closed, scripts=scripts)
    await tab.open("/queues")
    await tab.page.fill("[name=token]", "a guess")
    await tab.page.click("button")
    await expect(tab.page.locator("main")).to_contain_text(
        "This token is not valid for this server."
    )
    await tab.page.fill("[name=token]", TOKEN)
    await tab.page.click("button")
    await expect(tab.page.locator("h1")).to_have_text("Queues")
    await tab.page.click("text=Sign out")
    await expect(tab.page.locator("[name=token]")).to_be_visible()
    await tab.open("/runs")
    await expect(tab.page.locator("[name=token]")).to_be_visible()


async def test_the_door_is_easy_to_use(closed: Place, open_tab: OpenTab) -> None:
    tab: Tab = await open_tab(closed)
    await tab.open("/sign-in")
    wrong = await tab.axe()
    await tab.page.emulate_media(color_scheme="dark")
    await tab.page.set_viewport_size({"width": NARROW, "height": 900})
    wrong += await tab.axe()
    wrong += await tab.too_wide()
    assert not wrong
