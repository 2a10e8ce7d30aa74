"""`GET /api/v1/stream` and `GET /api/v1/logs/tail`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest
from starlette.requests import ClientDisconnect

import rota
from rota.api import create_api
from rota.api import stream as streams
from rota.api.errors import ProblemError
from rota.api.paced_changes import PacedChanges
from rota.api.serve import ApiServer, address, listen
from rota.api.slots import EventStream, StreamSlots
from rota.api.stream import Hub, Sent, StreamClient, events_of
from rota.errors import DatabaseError
from rota.model.metrics import Changes
from rota.model.stats import QueueDepth
from rota.telemetry.events import Event
from rota.testing import eventually, run_due
from tests.api.conftest import HEADERS, problem
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]


@dataclass
class Heard:
    name: str
    data: dict[str, Any]
    id: str | None


@dataclass
class Served:
    api: Any
    server: ApiServer
    client: httpx.AsyncClient


@pytest.fixture
async def served(shop: rota.App) -> AsyncIterator[Served]:
    bound = listen("127.0.0.1", 0)
    api = create_api(shop)
    async with (
        ApiServer(api, bound) as server,
        httpx.AsyncClient(base_url=address(bound), headers=HEADERS, timeout=30) as client,
    ):
        yield Served(api, server, client)


@asynccontextmanager
async def hearing(
    client: httpx.AsyncClient, path: str = "/api/v1/stream", **headers: str
) -> AsyncIterator[AsyncIterator[Heard]]:
    """Connected, and the first poll is over."""
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()
        assert await anext(lines) == ": connected"
        yield _events(lines)


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[Heard]:
    found: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            found[name] = value
        elif not line and "event" in found:
            yield Heard(found["event"], json.loads(found["data"]), found.get("id"))
            found = {}


async def first(events: AsyncIterator[Heard], name: str) -> Heard:
    async with asyncio.timeout(30):
        async for event in events:
            if event.name == name:
                return event
    raise AssertionError(f"the stream ended without {name}")


async def polled(served: Served) -> None:
    """The hub has seen where things stand: what comes now is news."""
    hub = served.api.state.rota.hub
    await eventually(lambda: hub._audit._last is not None)


async def test_runs_and_operators_are_told_of(served: Served, shop: rota.App) -> None:
    async with hearing(served.client) as events:
        await polled(served)
        await shop.queues.by("alice").pause("other", "smtp")
        deed = await first(events, "audit.recorded")
        assert (deed.data["action"], deed.data["actor"]) == ("queue.paused", "alice")
        run = await shop.runs.enqueue("clean", {"days": 1})
        await run_due(shop)
        done = await first(events, "run.succeeded")
        assert done.data == {"job": "clean", "queue": "default", "count": 1}
        await shop.runs.wait(run.id)


async def test_topics_choose(served: Served, shop: rota.App, conn: Conn) -> None:
    async with hearing(served.client, "/api/v1/stream?topics=workers,queues") as events:
        await polled(served)
        await shop.queues.pause("other")
        worker = Engine(conn).worker("send")
        heard = [await anext(events)]
        assert (heard[0].name, heard[0].data["worker"]) == ("worker.live", worker)
        Engine(conn).lose(worker)
        assert (await first(events, "worker.lost")).data["worker"] == worker


async def test_who_comes_back_goes_on_where_it_was(served: Served, shop: rota.App) -> None:
    path = "/api/v1/stream?topics=audit"
    async with hearing(served.client, path) as events:
        await polled(served)
        await shop.queues.pause("a")
        last = await first(events, "audit.recorded")
    hub = served.api.state.rota.hub
    await shop.queues.pause("b")
    await eventually(lambda: hub._number > int(str(last.id).rpartition("-")[2]))
    async with hearing(served.client, path, **{"Last-Event-ID": str(last.id)}) as events:
        missed = await anext(events)
        assert (missed.name, missed.data["object_id"]) == ("audit.recorded", "b")
    async with hearing(served.client, path, **{"Last-Event-ID": "0badc0de-7"}) as events:
        assert (await anext(events)).name == "resync"


async def test_streams_end_with_the_server(served: Served) -> None:
    async with hearing(served.client) as events, hearing(served.client) as others:
        served.server.stop()
        async with asyncio.timeout(10):
            assert [event async for event in events] == []
            assert [event async for event in others] == []


async def test_a_tail_shows_lines_as_they_are_stored(served: Served, shop: rota.App) -> None:
    @shop.job
    async def talk(ctx: rota.Context, word: str) -> None:
        ctx.log.warning(word, loud=True)
        ctx.log.info("unimportant")

    await talk.enqueue(word="earlier")
    await run_due(shop)
    path = "/api/v1/logs/tail?level=warning&job=talk"
    async with hearing(served.client, path) as lines:
        assert (await anext(lines)).data["message"] == "earlier"
        run = await talk.enqueue(word="later")
        await run_due(shop)
        line = await first(lines, "line")
        assert (line.data["message"], line.data["run_id"]) == ("later", run.id)
        assert line.data["fields"] == {"loud": True}
        served.server.stop()
        assert [it async for it in lines] == []
    await eventually(lambda: served.api.state.rota.tails.taken == 0)


@pytest.mark.parametrize("path", ["/api/v1/stream", "/api/v1/logs/tail"])
async def test_nothing_without_a_token(stranger: httpx.AsyncClient, path: str) -> None:
    problem(await stranger.get(path), 401, "unauthorized")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/stream?topics=gossip", "invalid"),
        ("/api/v1/stream?topics=", "invalid"),
        ("/api/v1/stream?topic=runs", "unknown_parameter"),
        ("/api/v1/logs/tail?lines=-1", "invalid"),
        ("/api/v1/logs/tail?level=loud", "invalid"),
    ],
)
async def test_questions_that_make_no_sense(api: httpx.AsyncClient, path: str, code: str) -> None:
    problem(await api.get(path), 422, code)


async def test_no_more_streams_than_there_may_be(served: Served) -> None:
    """Also of those who ask at once; and each one that ends makes room."""
    state = served.api.state.rota
    state.listeners.most = state.tails.most = 5

    async def try_to_open(path: str, stack: AsyncExitStack) -> int:
        stream = served.client.stream("GET", path)
        return (await stack.enter_async_context(stream)).status_code

    for path in ("/api/v1/stream", "/api/v1/logs/tail"):
        for _ in range(2):
            async with AsyncExitStack() as stack:
                opened = await asyncio.gather(*[try_to_open(path, stack) for _ in range(15)])
                assert sorted(opened) == [200] * 5 + [503] * 10
            await eventually(lambda: state.listeners.taken + state.tails.taken == 0)
    assert not state.hub._listeners


async def test_a_stream_that_nobody_reads_leaves_nothing_behind() -> None:
    slots, started = StreamSlots(1, "are open"), []

    async def source() -> AsyncGenerator[bytes]:
        started.append(True)
        yield b""

    async def gone(*_: Any) -> Any:
        raise OSError

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    with pytest.raises(ClientDisconnect):
        await EventStream(source(), slots)(scope, gone, gone)
    assert (slots.taken, started) == (0, [])
    with slots.take(), pytest.raises(ProblemError):
        await EventStream(source(), slots)(scope, gone, gone)
    assert slots.taken == 0


# The parts, without a server.


def sent(number: int, name: str = "run.succeeded") -> Sent:
    return Sent(number, Event(name, {"count": number}))


async def test_a_slow_client_is_told_to_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_WAITING", 3)
    listener = StreamClient(frozenset({"runs"}))
    for number in range(1, 5):
        listener.offer(sent(number))
        listener.offer(sent(number, "queue.changed"))
    assert await listener.take(1) == [Sent(4, None)]
    listener.offer(sent(5))
    assert await listener.take(1) == [sent(5)]


async def test_signs_of_life_while_nothing_happens() -> None:
    hub = Hub(_never, asyncio.Event())
    listener = StreamClient(frozenset({"runs"}))
    parts = events_of(hub, listener, heartbeat=0.01)
    assert await anext(parts) == b": connected\nretry: 2000\n\n"
    assert await anext(parts) == b": still here\n\n"
    listener.close()
    assert [part async for part in parts] == []


async def _never(_: int | None) -> Changes:
    await asyncio.Event().wait()
    raise AssertionError


async def test_one_poller_serves_all_and_outlives_an_error() -> None:
    reads: list[int | None] = []
    stopping = asyncio.Event()

    async def read(after: int | None) -> Changes:
        reads.append(after)
        if len(reads) == 2:
            raise DatabaseError("away")
        return Changes(attempts={("send", "mail", "succeeded"): len(reads)})

    hub = Hub(read, stopping, poll_seconds=0.001)
    listeners = [hub.listen(frozenset({"runs"}), None) for _ in range(3)]
    for listener in listeners:
        first_news = (await listener.take(10))[0]
        assert first_news.event is not None
        # The counts of the poll that failed are not lost.
        assert first_news.event.data == {"job": "send", "queue": "mail", "count": 2}
    stopping.set()
    await eventually(lambda: all(listener.is_closed for listener in listeners))


async def test_what_waits_is_counted_more_rarely_the_longer_it_takes() -> None:
    now, took, waiting = [0.0], [0.001], [5000]
    asked: list[bool] = []

    async def read(after: int | None, depths: Mapping[str, QueueDepth] | None) -> Changes:
        asked.append(depths is None)
        now[0] += took[0]
        mail = QueueDepth("mail", 0, 0, waiting[0], 0, 0, None)
        return Changes(depths={"mail": mail} if depths is None else dict(depths))

    paced = PacedChanges(read, now=lambda: now[0])
    for _ in range(3):
        await paced(None)
        now[0] += 0.5
    assert asked == [True, True, True], "what is quick is counted by each poll"
    took[0] = 0.02
    asked.clear()
    for _ in range(9):
        await paced(None)
        now[0] += 0.5
    assert asked == [True, False, False, False] * 2 + [True]
    now[0] += 5
    waiting[0] = 10
    asked.clear()
    for _ in range(3):
        await paced(None)
    assert asked == [True, True, True], "each of a few that wait is news"
