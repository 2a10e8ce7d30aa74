"""The pipe into which workers write what the bench must know at once.

A pipe, because reading it costs nothing while nothing comes: the bench must not take a core's
time from what it measures.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from types import TracebackType


class Pipe:
    """Lines of all workers: `ready`, or `n nanoseconds`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rest = b""
        self._ready = 0
        self.starts: dict[int, int] = {}  # when the body with this n started

    def __enter__(self) -> Pipe:
        os.mkfifo(self.path)
        # For writing too: without a writer of our own, reading would end with the last worker.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def lines(self, seconds: float) -> list[str]:
        """What has come, after waiting at most so long for something."""
        if not select.select([self._fd], [], [], max(0.0, seconds))[0]:
            return []
        *whole, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
        return [line.decode() for line in whole]

    def clear(self) -> None:
        while self.lines(0):
            pass
        self.starts.clear()

    def count_ready(self, seconds: float) -> int:
        """How many workers have said so up to now."""
        self._ready += sum(line == "ready" for line in self.lines(seconds))
        return self._ready

    def wait_for(self, n: int, seconds: float) -> bool:
        """Until the body with this n has started; False when there was nothing for so long."""
        while n not in self.starts and (lines := self.lines(seconds)):
            self._note(lines)
        return n in self.starts

    def collect(self, count: int, seconds: float) -> dict[int, int]:
        """The starts of this many bodies, by n."""
        limit = time.monotonic() + seconds
        while len(self.starts) < count and time.monotonic() < limit:
            self._note(self.lines(limit - time.monotonic()))
        return self.starts

    def _note(self, lines: list[str]) -> None:
        for line in lines:
            n, _, at = line.partition(" ")
            if at:
                self.starts[int(n)] = int(at)
