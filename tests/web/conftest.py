"""The dashboard in this process, on the test's database."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import httpx
import pytest

import rota
from rota.web import create_site, forecasts

TOKEN = "a token for tests"


class Browser:
    """As a browser without scripts: it keeps cookies, follows redirects, and sends the forms that
    it was shown."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.page = ""
        self.response: httpx.Response

    async def get(self, path: str, status: int = 200, **headers: str) -> str:
        self.response = await self.client.get(path, headers=headers, follow_redirects=True)
        self.page = self.response.text
        assert self.response.status_code == status, self.page
        return self.page

    async def post(self, path: str, status: int = 200, **fields: Any) -> str:
        """A form of the page before, with its token."""
        given = {"csrf": self.csrf} | fields
        self.response = await self.client.post(path, data=given, follow_redirects=True)
        self.page = self.response.text
        assert self.response.status_code == status, self.page
        return self.page

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.page)
        return found[1] if found else ""

    @property
    def text(self) -> str:
        """What one reads."""
        bare = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", self.page, flags=re.S)
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", bare)).split())


def browser_of(site: Any) -> Browser:
    transport = httpx.ASGITransport(site)
    return Browser(httpx.AsyncClient(transport=transport, base_url="http://rota.test"))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages show what they count, however busy the machine is."""
    monkeypatch.setattr(forecasts, "PATIENCE", 60.0)


@pytest.fixture
def shop(make_app: Any) -> rota.App:
    """An application with a few jobs, which no worker runs."""
    app: rota.App = make_app(**{"server.token": TOKEN})

    @app.job(queue="mail", max_attempts=2, tags=["mail"])
    async def send(user_id: int, locale: str = "en") -> None: ...

    @app.job(payload={"days": 7})
    async def clean(days: int) -> None: ...

    @app.job(max_attempts=1)
    async def boom(ctx: rota.Context, text: str) -> None:
        ctx.log.warning("it breaks", text=text)
        raise RuntimeError(text)

    return app


@pytest.fixture
async def stranger(shop: rota.App) -> AsyncIterator[Browser]:
    browser = browser_of(create_site(shop))
    async with browser.client:
        yield browser


@pytest.fixture
async def web(stranger: Browser) -> Browser:
    """Signed in."""
    await stranger.get("/sign-in")
    await stranger.post("/sign-in", token=TOKEN, next="/queues")
    return stranger
