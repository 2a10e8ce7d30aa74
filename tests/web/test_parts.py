"""Parts of pages are made once for all who look again after the same news."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from rota.api.stream import Hub, Sent, StreamClient
from rota.telemetry.events import Event
from rota.web.access import Viewer
from rota.web.page_scope import MARK
from rota.web.pages.live import pace_of, take
from rota.web.parts import SharedParts
from rota.web.session import is_masked


class Pages:
    """An application that says how often it was asked, with the token of whoever asks."""

    def __init__(self) -> None:
        self.made = 0
        self.place = "a-1"
        self.viewer = Viewer("ada")
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self._shared = SharedParts(self._answer, place=lambda: self.place)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._shared({**scope, "rota.viewer": self.viewer}, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.made += 1
        self.is_asked.set()
        await self.may_answer.wait()
        token = scope.get(MARK) or Request(scope).cookies.get("rota_csrf")
        text = f"made {self.made}: {token}" if scope["path"] == "/form" else f"made {self.made}"
        await HTMLResponse(text)(scope, receive, send)

    async def ask(self, path: str = "/runs", **given: str) -> httpx.Response:
        cookies = {"rota_csrf": "one"} | {k: v for k, v in given.items() if k.startswith("rota_")}
        headers = {"x-rota-part": "list"} | {k: v for k, v in given.items() if k not in cookies}
        headers |= {"cookie": "; ".join(f"{k}={v}" for k, v in cookies.items() if v)}
        transport = httpx.ASGITransport(self)
        async with httpx.AsyncClient(transport=transport, base_url="http://rota.test") as client:
            return await client.get(path, headers=headers)


@pytest.fixture
def pages() -> Pages:
    return Pages()


async def test_all_who_ask_after_the_same_news_get_one_answer(pages: Pages) -> None:
    pages.may_answer.clear()
    asking = [asyncio.create_task(pages.ask()) for _ in range(5)]
    await pages.is_asked.wait()
    pages.may_answer.set()
    assert {(await one).text for one in asking} == {"made 1"}
    assert (await pages.ask()).text == "made 1"
    pages.place = "a-2"
    assert (await pages.ask()).text == "made 2"


async def test_everybody_gets_their_own_token(pages: Pages) -> None:
    for token in ("one", "other"):
        answer = (await pages.ask("/form", rota_csrf=token)).text
        made, _, masked = answer.partition(": ")
        assert made == "made 1"
        assert is_masked(token, masked)


async def test_it_is_compressed_for_those_who_take_it_so(pages: Pages) -> None:
    for coding in ("gzip", "identity"):
        answer = await pages.ask(**{"accept-encoding": coding})
        assert answer.text == "made 1"
        assert answer.headers.get("content-encoding") == (coding if coding == "gzip" else None)


@pytest.mark.parametrize(
    "other",
    [
        {"x-rota-part": "actions"}, {"rota_zone": "Asia/Tokyo"}, {"path": "/runs?state=failed"},
        {"host": "elsewhere"},
    ],
    ids=str,
)  # fmt: skip
async def test_what_is_asked_otherwise_is_made_anew(pages: Pages, other: dict[str, Any]) -> None:
    await pages.ask()
    assert (await pages.ask(**other)).text == "made 2"


async def test_another_viewer_gets_what_is_theirs(pages: Pages) -> None:
    await pages.ask()
    pages.viewer = Viewer("bob")
    assert (await pages.ask()).text == "made 2"


@pytest.mark.parametrize("given", [{"rota_csrf": ""}, {"rota_said": "x"}], ids=str)
async def test_whoever_has_just_come_or_acted_shares_nothing(
    pages: Pages, given: dict[str, str]
) -> None:
    await pages.ask(**given)
    assert (await pages.ask(**given)).text == "made 2"


async def test_nothing_is_shared_where_nobody_tells_the_news(pages: Pages) -> None:
    pages.place = ""
    await pages.ask()
    assert (await pages.ask()).text == "made 2"


def test_the_more_pages_are_open_the_rarer_each_of_them_looks() -> None:
    assert [pace_of(it) for it in (1, 20, 50, 500)] == [0, 0, 5, 5]


async def test_news_wait_for_their_moment_unless_somebody_did_something() -> None:
    deed = Sent(2, Event("audit.recorded", {}))
    listener = StreamClient(frozenset({"runs", "audit"}))
    listener.offer(Sent(1, Event("run.succeeded", {})))
    waiting = asyncio.create_task(take(listener, 60, pace=1_000_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    listener.offer(deed)
    listener.close()
    assert [it.number for it in await waiting] == [1, 2]

    listener = StreamClient(frozenset({"runs", "audit"}))
    listener.offer(deed)
    assert await take(listener, 60, pace=1_000_000) == [deed]


async def test_a_hub_knows_how_many_listen() -> None:
    async def read(after: int | None) -> Any:
        raise OSError("nobody is there")

    hub = Hub(read, asyncio.Event())
    listeners = [hub.listen(frozenset(), None) for _ in range(3)]
    assert hub.listening == 3
    for one in listeners:
        hub.leave(one)
    assert hub.listening == 0
