"""One browser a test process, and servers for it to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import playwright.async_api as driver
import psycopg
import pytest
import pytest_asyncio

import rota
from rota.api.serve import ApiServer, address, listen
from rota.api.state import ApiState
from rota.web import create_site, forecasts
from tests.browser.chromium import find_chromium, started
from tests.browser.tabs import PATIENCE_MS, Tab, new_context, opened, watched
from tests.browser.world import HOSTILE, PLAIN, Words, World, declare, fill
from tests.conftest import load_config
from tests.database import Server
from tests.proxy import Proxy

TOKEN = "a token for tests"
# For every module here: the browser lives in one loop, and so does all that talks to it.
_IN_ONE_LOOP = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
# A group is what one runner does, with a browser and servers of its own: no group may be so long
# that the others wait for it at the end.
BROWSER = [*_IN_ONE_LOOP, pytest.mark.xdist_group("browser")]
OpenTab = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])
driver.expect.set_options(timeout=PATIENCE_MS)


def group(name: str) -> Callable[[F], F]:
    """For a test with so many cases that they are a group of their own."""

    def mark(test: F) -> F:
        for one in (*_IN_ONE_LOOP, pytest.mark.xdist_group(name)):
            test = one(test)
        return test

    return mark


def acts(*routes: str) -> pytest.MarkDecorator:
    """A test of these actions, by the routes that take their forms."""
    return pytest.mark.acts(*routes)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages show what they count, however busy the machine is."""
    monkeypatch.setattr(forecasts, "PATIENCE", 60.0)


class Place:
    """A dashboard that is served, with what is in it."""

    def __init__(
        self, app: rota.App, world: World, conn: psycopg.Connection[Any], authenticate: Any
    ) -> None:
        self.app = app
        self.world = world
        self.proxy: Proxy | None = None  # between the server and its database
        self.conn = conn
        self._authenticate = authenticate
        self._address = ("127.0.0.1", 0)

    async def start(self) -> None:
        """The second time at the same address."""
        self._site = create_site(self.app, authenticate=self._authenticate)
        bound = listen(*self._address)
        self._address = bound.getsockname()
        self.base = address(bound)
        self._server = await ApiServer(self._site, bound).__aenter__()

    async def stop(self) -> None:
        await self._server.__aexit__()

    @property
    def listeners(self) -> int:
        """Streams that are open."""
        state: ApiState = self._site.state.rota
        return state.listeners.taken


def _app(url: str, words: Words) -> rota.App:
    app = rota.App(config=load_config(url, {"server.token": TOKEN}))
    declare(app, words)
    return app


@dataclass(frozen=True, slots=True)
class Filled:
    """A database with a world in it, to be copied."""

    server: Server
    name: str
    world: World

    @asynccontextmanager
    async def serve(
        self, *, signs_in: bool = False, proxy: type[Proxy] | None = None
    ) -> AsyncIterator[Place]:
        """A copy of it, which the server reaches through a proxy if that is given."""
        with self.server.fresh_database(self.name) as url:
            between = proxy(url) if proxy else None
            app = _app(between.url if between else url, self.world.words)
            with psycopg.connect(url, autocommit=True) as conn:
                place = Place(app, self.world, conn, None if signs_in else lambda _: "grace")
                place.proxy = between
                await place.start()
                yield place
                await place.stop()
            await app.close()
            if between is not None:
                between.close()


async def _filled(server: Server, words: Words) -> AsyncIterator[Filled]:
    with server.fresh_database() as url:
        app = _app(url, words)
        world = await fill(app, words)
        await app.close()
        yield Filled(server, url.rpartition("/")[2], world)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[driver.Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium (apt install chromium, or name one: ROTA_CHROMIUM)")
    async with started(program) as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def filled(chromium: driver.Browser, server: Server) -> AsyncIterator[Filled]:
    async for one in _filled(server, PLAIN):
        yield one


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def everyday(filled: Filled) -> AsyncIterator[Place]:
    """To look at, not to change: all tests share it."""
    async with filled.serve() as place:
        yield place


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def hostile(chromium: driver.Browser, server: Server) -> AsyncIterator[Place]:
    """The same, in the worst of words."""
    async for one in _filled(server, HOSTILE):
        async with one.serve() as place:
            yield place


@pytest_asyncio.fixture(loop_scope="session")
async def place(filled: Filled) -> AsyncIterator[Place]:
    """One's own."""
    async with filled.serve() as place:
        yield place


@pytest_asyncio.fixture(loop_scope="session")
async def open_tab(chromium: driver.Browser) -> AsyncIterator[OpenTab]:
    """`tab = await open_tab(place)`; at the end of the test nothing may have gone wrong in it."""
    async with AsyncExitStack() as stack:

        async def tab(place: Place, **options: Any) -> Tab:
            one: AbstractAsyncContextManager[Tab] = opened(chromium, place.base, **options)
            return await stack.enter_async_context(one)

        yield tab


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def visitor(chromium: driver.Browser) -> AsyncIterator[driver.BrowserContext]:
    async with new_context(chromium) as context:
        yield context


@pytest_asyncio.fixture(loop_scope="session")
async def visit(visitor: driver.BrowserContext) -> AsyncIterator[OpenTab]:
    """A tab beside those of other tests that only look: the browser loads what pages share once."""
    async with AsyncExitStack() as stack:

        async def tab(place: Place) -> Tab:
            return await stack.enter_async_context(watched(visitor, place.base))

        yield tab
