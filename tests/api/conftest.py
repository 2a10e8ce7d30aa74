"""The API in this process, on the test's database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

import rota
from rota.api import create_api

TOKEN = "a token for tests"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
MakeClient = Callable[..., httpx.AsyncClient]


def client_of(api: Any, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(api), base_url="http://rota.test", headers=headers
    )


@pytest.fixture
def shop(make_app: Callable[..., rota.App]) -> rota.App:
    """An application with a few jobs, which no worker runs."""
    app = make_app(**{"server.token": TOKEN})

    @app.job(queue="mail", max_attempts=2, tags=["mail"])
    async def send(user_id: int, locale: str = "en") -> None: ...

    @app.job(payload={"days": 7})
    async def clean(days: int) -> None: ...

    return app


@pytest.fixture
async def api(shop: rota.App) -> AsyncIterator[httpx.AsyncClient]:
    """With the token."""
    async with client_of(create_api(shop), **HEADERS) as client:
        yield client


@pytest.fixture
async def stranger(shop: rota.App) -> AsyncIterator[httpx.AsyncClient]:
    """Without a token."""
    async with client_of(create_api(shop)) as client:
        yield client


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """What was answered, after a look at its shape."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code), body
    assert body["type"] == f"urn:rota:problem:{code}"
    assert body["title"]
    assert body["detail"]
    return body
