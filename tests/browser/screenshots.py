"""Pictures of the main pages, from the demo: `./script/screenshots`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_urlsafe

import httpx
import playwright.async_api as driver

from tests.browser.chromium import find_chromium, started
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
_PATIENCE_SECONDS = 180.0
# Name, address, theme, height.
PICTURES = (
    ("overview", "/", "light", 900),
    ("overview-dark", "/", "dark", 720),
    ("runs", "/runs", "light", 700),
    ("run", "/runs?state=succeeded&job=nightly_report", "light", 860),  # the newest of them
    ("schedules", "/schedules", "light", 760),
    ("schedule", "/schedules/price-list", "light", 1000),
    ("calendar", "/calendar", "light", 900),
    ("errors", "/errors", "dark", 640),
    ("logs", "/logs", "light", 760),
    ("health", "/doctor", "light", 760),
)


# A demo that was started by hand has its own: ROTA_DEV_TOKEN.
TOKEN = os.environ.get("ROTA_DEV_TOKEN") or token_urlsafe(24)


@contextmanager
def demo() -> Iterator[str]:
    """The address of a demo of one's own, with a history that goes on until now, which ends with
    the block."""
    port = free_port()
    home = Path(tempfile.mkdtemp(prefix="rota-pictures-"))
    home.chmod(0o711)  # as root the database has an account of its own, which must enter
    own = {
        "ROTA_SERVER_PORT": str(port), "ROTA_DATA_DIR": str(home / "postgres"),
        "ROTA_DEV_TOKEN": TOKEN,
    }  # fmt: skip
    program = subprocess.Popen(
        [str(ROOT / "script" / "demo"), "--no-reload"],
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        base = f"http://127.0.0.1:{port}"
        _wait(base)
        yield base
    finally:
        os.killpg(program.pid, signal.SIGINT)
        program.wait()
        shutil.rmtree(home, ignore_errors=True)


def _wait(base: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            # Not a page: the first one would be of a moment in which no worker is there yet.
            headers = {"Authorization": f"Bearer {TOKEN}"}
            if httpx.get(f"{base}/api/v1/workers", timeout=10, headers=headers).json()["items"]:
                return
        except httpx.HTTPError:
            pass
        if time.monotonic() > deadline:
            sys.exit("the demo does not come up; look at ./script/demo")
        time.sleep(1)


async def take(base: str, into: Path) -> None:
    program = find_chromium()
    if program is None:
        sys.exit("no Chromium (apt install chromium, or name one: ROTA_CHROMIUM)")
    async with started(program) as browser:
        for name, path, theme, height in PICTURES:
            page = await _page(browser, base, theme, height)
            await page.goto(f"{base}/?token={TOKEN}")
            await page.goto(base + path)
            if name == "run":
                await page.locator("[data-row] td.name a").first.click()
            await _settled(page)
            await page.screenshot(path=into / f"{name}.png")
            await page.context.close()


async def _settled(page: driver.Page) -> None:
    """Live, where it can be, and with its charts drawn."""
    bar = page.locator("[data-live-text]")
    if await bar.count():
        await driver.expect(bar.first).to_have_text("Live", timeout=30_000)
    await page.wait_for_timeout(1500)


async def _page(browser: driver.Browser, base: str, theme: str, height: int) -> driver.Page:
    context = await browser.new_context(
        viewport={"width": 1280, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        timezone_id="Europe/Vienna",
        reduced_motion="reduce",
    )
    await context.add_cookies([{"name": "rota_zone", "value": "Europe/Vienna", "url": base}])
    return await context.new_page()


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 1:
        asyncio.run(take(sys.argv[1], IMAGES))
        return
    with demo() as base:
        asyncio.run(take(base, IMAGES))


if __name__ == "__main__":
    main()
