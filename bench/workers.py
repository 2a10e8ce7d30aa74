"""Worker processes: started, frozen while their work is laid out, released, and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil  # type: ignore[import-untyped]

from bench.cpu import cpu_seconds

ROOT = Path(__file__).parents[1]
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class Workers:
    """Some processes of one program; on exit they are stopped, by force if need be."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        count: int,
        ready: Callable[[float], int],
    ) -> None:
        """`ready` waits at most so many seconds and says how many of them are ready by now."""
        self._argv, self._env, self._count, self._ready = argv, env, count, ready
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Workers:
        self._errors = tempfile.TemporaryFile()
        try:
            for _ in range(self._count):
                self._start_one()
            self._wait_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _start_one(self) -> None:
        one = subprocess.Popen(
            self._argv, env=self._env, cwd=ROOT, stdout=self._errors, stderr=self._errors
        )
        self._running.append(one)

    def _wait_ready(self) -> None:
        limit = time.monotonic() + _START_SECONDS
        while self._ready(0.2) < self._count:
            self.check()
            if time.monotonic() > limit:
                raise RuntimeError(f"{self._argv} was not ready in time:\n{self._last_words()}")

    def check(self) -> None:
        for one in self._running:
            if one.poll() is not None:
                raise RuntimeError(f"{self._argv} ended by itself:\n{self._last_words()}")

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def release(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for one in self._running:
            os.kill(one.pid, number)

    def _stop(self) -> None:
        for one in self._running:
            one.send_signal(signal.SIGCONT)
            one.terminate()
        for one in self._running:
            try:
                one.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self._errors.close()

    # What they use, with the processes that they started.

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(one.pid) for one in self._family())

    def memory_bytes(self) -> int:
        return sum(one.memory_info().rss for one in self._family())

    def _family(self) -> list[psutil.Process]:
        mains = [psutil.Process(one.pid) for one in self._running]
        return mains + [child for main in mains for child in main.children(recursive=True)]
