"""The live stream: one poller per server; all listeners are served from memory."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi.sse import format_sse_event

from rota.errors import RotaError
from rota.model.metrics import Changes, OperatorAction
from rota.telemetry.events import Event, compare
from rota.telemetry.logger import get_logger

Read = Callable[[int | None], Awaitable[Changes]]

POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
RETRY_MS = 2000
MOST_WAITING = 500
MOST_LISTENERS = 500
_KEPT_EVENTS = 2000
# Keep polling for a while without listeners: a client that reconnects has then missed nothing.
_LINGER_POLLS = 60
_LONGEST_PAUSE = 5.0
_ANSWER_SECONDS = 5.0
# An audit row may be committed after a row with a higher number.
_AUDIT_OVERLAP = 200
_RESYNC = Event("resync", {})
_log = get_logger("api")


@dataclass(frozen=True, slots=True)
class Sent:
    """An event with its position in the order of this server."""

    number: int
    event: Event | None  # None: something was lost, reload


class StreamClient:
    """The queue of one client. If it is full, it is emptied, and the client must reload."""

    def __init__(self, topics: frozenset[str], *, hears_outages: bool = False) -> None:
        self._topics = topics
        self.hears_outages = hears_outages
        self._waiting: deque[Sent] = deque()
        self._news = asyncio.Event()
        self._closed = asyncio.Event()

    def offer(self, sent: Sent) -> None:
        if sent.event is not None and sent.event.topic not in self._topics:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.clear()
            sent = Sent(sent.number, None)
        self._waiting.append(sent)
        self._news.set()

    def wake(self) -> None:
        """End the wait of `take`, though nothing has arrived."""
        self._news.set()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._closed.set()
        self._news.set()

    async def rest(self, seconds: float) -> None:
        """Wait until the time is over, or the client is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def take(self, seconds: float) -> list[Sent]:
        """Return what has arrived; empty if nothing arrives in this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return []
        taken = list(self._waiting)
        self._waiting.clear()
        if not self.is_closed:
            self._news.clear()
        return taken


class Hub:
    """Polls while there are listeners, and for a while after."""

    def __init__(
        self, read: Read, stopping: asyncio.Event, *, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._read = read
        self._stopping = stopping
        self._closer: asyncio.Task[None] | None = None
        self._seconds = poll_seconds
        self._epoch = secrets.token_hex(4)
        self._listeners: set[StreamClient] = set()
        self._kept: deque[Sent] = deque(maxlen=_KEPT_EVENTS)
        self._number = 0
        self._lost_before = 0  # some events up to here are no longer known
        self._has_looked = False  # since polling began
        self._read_at: datetime | None = None
        self._stale_since: datetime | None = None
        self._task: asyncio.Task[None] | None = None
        self._audit = _AuditPlace()

    def listen(
        self, topics: frozenset[str], last_id: str | None, *, hears_outages: bool = False
    ) -> StreamClient:
        """`hears_outages`: wake the client when reads begin to fail, and when they succeed."""
        listener = StreamClient(topics, hears_outages=hears_outages)
        if last_id is not None:
            for sent in self._since(last_id):
                listener.offer(sent)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="rota stream")
            self._closer = asyncio.create_task(self._close(self._task), name="rota stream end")
        return listener

    @property
    def listening(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def leave(self, listener: StreamClient) -> None:
        self._listeners.discard(listener)

    def id_of(self, sent: Sent) -> str:
        return f"{self._epoch}-{sent.number}"

    @property
    def has_looked(self) -> bool:
        """Whether the changes have been read since polling began."""
        return self._has_looked

    @property
    def stale_since(self) -> datetime | None:
        """The time of the last successful read, while reads fail."""
        return self._stale_since

    @property
    def place(self) -> str:
        """The id of the present: a client that reads data and then listens from here misses
        nothing. Empty if this cannot be guaranteed, because there was no listener for a while."""
        is_polling = self._task is not None and not self._task.done() and self._has_looked
        return f"{self._epoch}-{self._number}" if is_polling else ""

    def _since(self, last_id: str) -> list[Sent]:
        """Return the events after an id; a single "reload" if they are no longer known."""
        epoch, _, number = last_id.partition("-")
        is_known = epoch == self._epoch and number.isdecimal() and len(number) < 20
        place = int(number) if is_known else -1
        if place > self._number or place < self._lost_before or not self._is_kept_after(place):
            return [Sent(self._number, None)]
        return [sent for sent in self._kept if sent.number > place]

    def _is_kept_after(self, place: int) -> bool:
        return place == self._number or (bool(self._kept) and self._kept[0].number <= place + 1)

    async def _run(self) -> None:
        """Poll; no event is missed from here on, earlier ones are unknown."""
        before: Changes | None = None
        self._has_looked = False
        idle, pause = 0, self._seconds
        while idle < _LINGER_POLLS:
            try:
                now = await self._look()
                if before is None:
                    self._lost_before = self._number
                else:
                    self._tell(before, now)
                before, pause = now, self._seconds
                self._note_read()
            except (RotaError, OSError) as error:
                _log.warning(
                    "the changes for the live stream could not be read, retrying", error=str(error)
                )
                pause = min(pause * 2, _LONGEST_PAUSE)
                self._note_failure()
            await asyncio.sleep(pause)
            idle = 0 if self._listeners else idle + 1

    async def _look(self) -> Changes:
        """Read the changes. Listeners learn of a read that hangs before it fails."""
        reading = asyncio.ensure_future(self._audit.read(self._read))
        try:
            await asyncio.wait((reading,), timeout=_ANSWER_SECONDS)
            if not reading.done():
                self._note_failure()
            return await reading
        finally:
            reading.cancel()

    def _note_read(self) -> None:
        is_news = not self._has_looked or self._stale_since is not None
        self._has_looked, self._stale_since = True, None
        self._read_at = datetime.now(UTC)
        if is_news:
            self._wake()

    def _note_failure(self) -> None:
        if self._stale_since is None:
            self._stale_since = self._read_at or datetime.now(UTC)
            self._wake()

    def _wake(self) -> None:
        for listener in self._listeners:
            if listener.hears_outages:
                listener.wake()

    def _tell(self, before: Changes, now: Changes) -> None:
        for event in compare(before, now):
            self._number += 1
            sent = Sent(self._number, event)
            self._kept.append(sent)
            for listener in self._listeners:
                listener.offer(sent)

    async def _close(self, polling: asyncio.Task[None]) -> None:
        """End every stream, because the server stops."""
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((stop, polling), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if self._stopping.is_set():
            for listener in list(self._listeners):
                listener.close()
            polling.cancel()


class _AuditPlace:
    """The position in the audit; reads again a little before it, and reports each row once."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._seen: set[int] = set()

    async def read(self, read: Read) -> Changes:
        is_first = self._last is None
        found = await read(None if self._last is None else self._last - _AUDIT_OVERLAP)
        news = [] if is_first else [deed for deed in found.deeds if deed.id not in self._seen]
        self._remember(found.deeds)
        return Changes(found.attempts, found.counts, found.depths, found.workers, news)

    def _remember(self, deeds: list[OperatorAction]) -> None:
        # Begin now: rows from before the first read are no news.
        first = self._last
        self._last = max([self._last or 0, *(deed.id for deed in deeds)])
        if first is None:
            self._seen = set(range(max(0, self._last - _AUDIT_OVERLAP), self._last + 1))
        self._seen |= {deed.id for deed in deeds}
        self._seen = {number for number in self._seen if number > self._last - 2 * _AUDIT_OVERLAP}


async def events_of(
    hub: Hub, listener: StreamClient, *, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes]:
    """Yield the stream of one client, until it disconnects or the server stops."""
    try:
        yield format_sse_event(retry=RETRY_MS, comment="connected")
        while not listener.is_closed:
            taken = await listener.take(heartbeat)
            if not taken and not listener.is_closed:
                yield format_sse_event(comment="still here")
            for sent in taken:
                event = sent.event or _RESYNC
                yield format_sse_event(
                    event=event.name, data_str=_json(event.data), id=hub.id_of(sent)
                )
    finally:
        hub.leave(listener)


async def until_stopped(
    source: AsyncGenerator[Any], stopping: asyncio.Event, show: Callable[[Any], bytes]
) -> AsyncGenerator[bytes]:
    """Yield any other source as a stream, with heartbeats while it is silent."""
    stop = asyncio.ensure_future(stopping.wait())
    step: asyncio.Future[Any] | None = None
    try:
        yield format_sse_event(retry=RETRY_MS, comment="connected")
        while not stop.done():
            step = step or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait(
                (step, stop), timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if step in done:
                found, step = step.result(), None
                yield show(found)
            elif not done:
                yield format_sse_event(comment="still here")
    finally:
        stop.cancel()
        if step is not None:
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
        await source.aclose()


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
