"""Tabs that notice what no page of the dashboard may ever do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import playwright.async_api as driver

PATIENCE_MS = 30_000  # a guard against hanging, on machines that are busy
WIDE, NARROW = 1440, 390
WIDTHS = (2560, WIDE, 1280, 1165, 1000, 900, NARROW)
_AXE = Path(__file__).with_name("vendor") / "axe-core" / "axe.min.js"
# Best practices beside the rules of WCAG 2.2 A and AA. The reference of the API has hundreds of
# sections that are alike: the first are enough.
_RUN_AXE = """rules => {
    [...document.querySelectorAll(".op")].slice(8).forEach(one => one.remove());
    return axe.run(document, rules ? {runOnly: {type: "rule", values: rules}} : {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}).then(found => found.violations.map(one =>
    `${one.id}: ${one.help}: ` + one.nodes.slice(0, 5).map(node =>
        `${node.html.slice(0, 200)} ${node.any.map(it => it.message).join("; ")}`
    ).join(" | ")));
}"""
_TOO_WIDE = """() => {
    const limit = document.documentElement.clientWidth;
    const rightOf = one => one.getBoundingClientRect().right;
    const out = [...document.querySelectorAll(".card > .grid")]
        .filter(one => rightOf(one) > rightOf(one.parentElement) + 1)
        .map(one => one.outerHTML.slice(0, 160));
    if (document.documentElement.scrollWidth <= limit) return out;
    const clips = one => /auto|scroll|hidden|clip/.test(getComputedStyle(one).overflowX);
    const isInside = one => one && (clips(one) || isInside(one.parentElement));
    return [...document.body.querySelectorAll("*")]
        .filter(one => rightOf(one) > limit + 1 && !isInside(one.parentElement))
        .slice(0, 5).map(one => one.outerHTML.slice(0, 160)).concat(out);
}"""

# What the console calls an error and is none. A form that was filled in wrongly is answered with
# 422. htmx gives up a request when a newer one takes its place; one that fails tells sendError too.
_HARMLESS = ("status of 4", "htmx:sendAbort", "htmx:afterRequest")


class Tab:
    """A page of the browser. `faults` is what happened and must not: an error of a script, a
    request that left the server, a dialog, something that the policy refused, an answer of 5xx."""

    def __init__(self, page: driver.Page, base: str, *, has_scripts: bool = True) -> None:
        self.page = page
        self.base = base
        self.has_scripts = has_scripts
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("dialog", self._dialog)
        page.on("popup", lambda popup: self.faults.append(f"opened {popup.url}"))

    async def open(self, path: str) -> driver.Response:
        """And wait until the page is live: what it missed while it was loaded is in it then."""
        answer = await self.page.goto(self.base + path)
        assert answer is not None
        bar = self.page.locator("[data-live-text]")
        if self.has_scripts and await bar.count():
            await driver.expect(bar).to_have_text("Live")
        return answer

    async def axe(self, *rules: str) -> list[str]:
        """What makes the page hard to use for somebody, by all rules or by some."""
        if not await self.page.evaluate("() => 'axe' in window"):
            await self.page.evaluate(_AXE.read_text(encoding="utf-8"))
        found: list[str] = await self.page.evaluate(_RUN_AXE, list(rules) or None)
        return found

    async def too_wide(self) -> list[str]:
        """What makes the page scroll sideways, or leaves its card, at any width."""
        wrong = []
        for width in WIDTHS:
            await self.page.set_viewport_size({"width": width, "height": 900})
            found: list[str] = await self.page.evaluate(_TOO_WIDE)
            wrong += [f"{width}: {one}" for one in found]
        return wrong

    async def text(self, selector: str = "body") -> str:
        return " ".join((await self.page.inner_text(selector)).split())

    def _console(self, message: driver.ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in _HARMLESS):
            self.faults.append(f"console: {message.text}")

    def _request(self, request: driver.Request) -> None:
        if not request.url.startswith(f"{self.base}/"):
            self.faults.append(f"asked for {request.url}")

    def _response(self, response: driver.Response) -> None:
        if response.status >= 500:
            self.faults.append(f"{response.status} of {response.url}")

    async def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"{dialog.type}: {dialog.message}")
        await dialog.dismiss()


@asynccontextmanager
async def new_context(
    browser: driver.Browser, width: int = WIDE, **options: Any
) -> AsyncIterator[driver.BrowserContext]:
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        timezone_id="Europe/Vienna",
        reduced_motion="reduce",
        **options,
    )
    try:
        yield context
    finally:
        await context.close()


@asynccontextmanager
async def opened(
    browser: driver.Browser, base: str, *, width: int = WIDE, scripts: bool = True, **options: Any
) -> AsyncIterator[Tab]:
    """A tab in a context of its own."""
    async with (
        new_context(browser, width, java_script_enabled=scripts, **options) as context,
        watched(context, base, has_scripts=scripts) as tab,
    ):
        yield tab


@asynccontextmanager
async def watched(
    context: driver.BrowserContext, base: str, *, has_scripts: bool = True
) -> AsyncIterator[Tab]:
    """A tab of this context, looked over at the end."""
    # As if it had been chosen before: a first visit loads its page twice.
    await context.add_cookies([{"name": "rota_zone", "value": "Europe/Vienna", "url": base}])
    tab = Tab(await context.new_page(), base, has_scripts=has_scripts)
    try:
        yield tab
        assert not tab.faults, "; ".join(tab.faults)
    finally:
        await tab.page.close()
