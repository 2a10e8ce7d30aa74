"""Bounds the number of open streams, exports and waiting requests."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rota.api.errors import ProblemError

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass
class StreamSlots:
    """`with slots.take(): …`, or a ProblemError that says which bound is reached."""

    most: int
    what: str
    taken: int = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        # No await between the check and the increment, so that simultaneous callers are all
        # counted.
        if self.taken >= self.most:
            raise ProblemError(
                503,
                "too_many_streams",
                f"too many at once: {self.most} {self.what}; try again later",
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class HeldStream(StreamingResponse):
    """Holds its slot from before the first byte until its source is closed, in every case, also if
    the client has gone before the first byte."""

    def __init__(
        self,
        source: AsyncGenerator[bytes],
        slots: StreamSlots,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(source, headers=_HEADERS | dict(headers or {}))
        self._source = source
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._slots.take():
            async with aclosing(self._source):
                await super().__call__(scope, receive, send)


class EventStream(HeldStream):
    """Server-sent events."""

    media_type = "text/event-stream"


class Archive(HeldStream):
    """A tar.gz that browsers save as a file."""

    media_type = "application/gzip"

    def __init__(self, source: AsyncGenerator[bytes], slots: StreamSlots, name: str) -> None:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        header = f"attachment; filename=\"{plain}.tar.gz\"; filename*=UTF-8''{quote(name)}.tar.gz"
        super().__init__(source, slots, {"Content-Disposition": header})
