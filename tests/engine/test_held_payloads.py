"""A run whose payload no live worker accepts, on every interface: it is shown with the reason, and
continues with another payload."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

import rota
from rota.api import create_api
from rota.cli.main import run as run_command
from rota.testing import eventually, run_due
from rota.web import create_site
from tests.api.conftest import client_of
from tests.conftest import MakeApp
from tests.sql_engine import Engine
from tests.web.conftest import browser_of

TOKEN = "a token for tests"
Way = Callable[[int, rota.App, str, pytest.MonkeyPatch], Awaitable[None]]
NEW = {"n": 3, "language": "en"}


async def first(n: int) -> str:
    return f"first {n}"


async def second(n: int, language: str) -> str:
    return f"second {n} {language}"


@pytest.fixture
async def new(make_app: MakeApp) -> rota.App:
    """The second release."""
    app = make_app(**{"server.token": TOKEN})
    app.job(name="greet")(second)
    return app


@pytest.fixture
async def held(make_app: MakeApp, new: rota.App, engine: Engine) -> int:
    old = make_app()
    run = await old.job(name="greet")(first).enqueue(n=1)
    async with new.worker():
        await eventually(lambda: engine.run(run.id)["held_by"] == "payload", 30)
    return run.id


async def by_command(run: int, new: rota.App, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", url)
    command = ["runs", "retry", str(run), "--payload", json.dumps(NEW)]
    assert await asyncio.to_thread(run_command, command) == 0


async def by_api(run: int, new: rota.App, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of(create_api(new), Authorization=f"Bearer {TOKEN}") as api:
        shown = (await api.get(f"/api/v1/runs/{run}")).json()
        assert (shown["state"], shown["held_by"]) == ("queued", "payload")
        answer = await api.post(f"/api/v1/runs/{run}/retry", json={"payload": NEW})
        assert answer.status_code == 200


async def by_page(run: int, new: rota.App, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    web = browser_of(create_site(new))
    async with web.client:
        await web.get("/sign-in")
        await web.post("/sign-in", token=TOKEN, next="/queues")
        await web.get(f"/runs/{run}")
        assert "argument language is missing" in web.text
        assert "Edit and retry…" in web.text
        await web.get(f"/runs/{run}/retry?edit=1")
        await web.post(f"/runs/{run}/retry", payload=json.dumps(NEW))


async def by_many(run: int, new: rota.App, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = await new.runs.retry_many([run], payload=NEW)
    assert result.done == 1, result


@pytest.mark.parametrize("way", [by_command, by_api, by_page, by_many])
async def test_another_payload(
    held: int,
    new: rota.App,
    engine: Engine,
    app_url: str,
    monkeypatch: pytest.MonkeyPatch,
    way: Way,
) -> None:
    await way(held, new, app_url, monkeypatch)
    await run_due(new)
    ended = engine.run(held)
    assert (ended["state"], ended["result"]) == ("succeeded", "second 3 en")
    assert ended["attempts_used"] == 1


async def test_it_needs_attention(held: int, new: rota.App) -> None:
    async with new.worker():
        (need,) = (await new.attention.get()).needs
    assert (need.kind, need.name, need.figures) == ("refused_payload", "greet", {"held": 1})
    assert need.sentence.endswith("1 run is held, because no live worker accepts the payload")
    assert need.reason is not None
    assert "argument language is missing" in need.reason
    assert need.command == "rota runs list --job greet --state queued"
