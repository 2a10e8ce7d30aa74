"""Threads that execute `def` handlers.

The standard library's pool does not fit: a thread whose attempt timed out cannot be ended, only
abandoned, and its place in the pool must be refilled.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rota.engine.executors.frameworks import thread_ends

_T = TypeVar("_T")
_LOOK_SECONDS = 0.005

_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class ThreadPool:
    """Threads are started when needed and kept for the next attempt. They are daemons, so that a
    thread that never returns does not prevent the process from ending."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def call(self, body: Callable[[], _T]) -> asyncio.Future[_T]:
        """Return a future of the body's result. If it is cancelled, the thread continues and its
        result is dropped.

        A future and not a task: a task passes SystemExit and KeyboardInterrupt on to the loop, and
        a handler that raises them would end the worker.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                name = f"rota thread {len(self._threads) + 1}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
        self._work.put((loop, future, body))
        return future

    def close(self, seconds: float = 0) -> None:
        """End each thread as soon as it is idle. Wait at most `seconds` for those that are idle
        now."""
        with self._lock:
            threads, self._threads, idle = self._threads, [], self._idle
        for _ in threads:
            self._work.put(None)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and len(threads) - _alive(threads) < idle:
            time.sleep(_LOOK_SECONDS)

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            thread_ends()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            loop, future, body = work
            # A context of its own, so that context variables do not leak into the next handler.
            result, error = contextvars.Context().run(_outcome, body)
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                return  # the loop is closed, and no task waits
            del work, loop, future, body, result, error


def _alive(threads: Iterable[threading.Thread]) -> int:
    return sum(thread.is_alive() for thread in threads)


def _outcome(body: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return body(), None
    except BaseException as error:
        return None, error


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        # A future refuses it, because it would end the awaiting coroutine.
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
