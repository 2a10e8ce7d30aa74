"""Which browser the tests drive: the distribution's Chromium, or that of ROTA_CHROMIUM."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import playwright.async_api as driver

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
# Frames and timers of pages that nobody looks at go on as if somebody did: two tabs are watched.
_FLAGS = (
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-backgrounding-occluded-windows",
)


def find_chromium() -> str | None:
    named = os.environ.get("ROTA_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@asynccontextmanager
async def started(program: str) -> AsyncIterator[driver.Browser]:
    async with driver.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=_FLAGS)
        try:
            yield browser
        finally:
            await browser.close()
