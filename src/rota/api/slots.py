"""What only so many may have at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rota.api.errors import ProblemError

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass
class Slots:
    """`with slots.take(): …`, or a ProblemError that says what there is too much of."""

    most: int
    what: str
    taken: int = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        # Nothing is awaited between the look and the taking: all who ask at once are counted.
        if self.taken >= self.most:
            raise ProblemError(503, "too_many_streams", f"{self.most} {self.what} already")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class EventStream(StreamingResponse):
    """Server-sent events. It holds its slot from before the first byte until its source is closed,
    however that comes, and also if nobody was there to read the first."""

    media_type = "text/event-stream"

    def __init__(self, source: AsyncGenerator[bytes], slots: Slots) -> None:
        super().__init__(source, headers=_HEADERS)
        self._source = source
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slots.take():
            async with aclosing(self._source):
                await super().__call__(scope, receive, send)
