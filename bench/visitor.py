"""An open dashboard without a browser: it listens to the stream and asks for parts again, as often
as the script of a page (`web/static/live.js`) would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.web.session import CSRF, SESSION, Sessions, new_csrf

SOON, REST = 0.15, 1.0


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    topics: frozenset[str]
    every: float = 0.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A page and its parts that stay live."""

    path: str
    parts: tuple[Part, ...]


PAGES = (
    Watched("/", (
        Part("attention", frozenset({"attention", "audit", "stats"}), 4),
        Part("plots", frozenset({"stats", "runs"}), 5),
        Part("rest", frozenset({"runs", "schedules", "audit"}), 5),
    )),
    Watched("/runs", (
        Part("actions", frozenset({"runs", "audit", "queues"})),
        Part("list", frozenset({"runs", "audit", "queues"})),
    )),
)  # fmt: skip


def cookies_of(token: str) -> dict[str, str]:
    """Of a browser that has signed in and seen a page."""
    return {SESSION: Sessions(token).begin("bench"), CSRF: new_csrf()}


@dataclass
class Visitor:
    port: int
    cookies: Mapping[str, str]
    page: Watched
    renewed: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    _due: set[Part] = field(default_factory=set)
    _asked: dict[Part, float] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        await asyncio.gather(self._listen(), self._renew())

    async def _listen(self) -> None:
        reader, writer = await self._send("/live", {"Accept": "text/event-stream"})
        try:
            while line := await reader.readline():
                self.opened.set()
                if line.startswith(b"data: "):
                    self._hear(line[6:].decode().strip())
        finally:
            writer.close()

    def _hear(self, news: str) -> None:
        topics = set(news.split(","))
        due = {one for one in self.page.parts if news == "resync" or one.topics & topics}
        self._due |= due
        if due:
            self._news.set()

    async def _renew(self) -> None:
        last = 0.0
        while True:
            await self._news.wait()
            await asyncio.sleep(max(SOON, last + REST - time.monotonic()))
            self._news.clear()
            for part in [one for one in self._due if self._is_due(one)]:
                self._due.discard(part)
                last = self._asked[part] = time.monotonic()
                await self.get(self.page.path, {"X-Rota-Part": part.name})
                self.renewed += 1
            if self._due:
                self._news.set()

    def _is_due(self, part: Part) -> bool:
        return time.monotonic() - self._asked.get(part, 0.0) >= part.every

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        reader, writer = await self._send(path, headers | {"Connection": "close"})
        try:
            answer = await reader.read()
        finally:
            writer.close()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path} was answered by {answer[:200]!r}")
        return answer

    async def _send(
        self, path: str, headers: Mapping[str, str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        own = {"Host": f"127.0.0.1:{self.port}", "Cookie": cookies, "Accept-Encoding": "gzip"}
        return await _ask(self.port, f"GET {path}", own | dict(headers))


async def _ask(
    port: int, what: str, headers: Mapping[str, str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"{what} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await writer.drain()
    return reader, writer
