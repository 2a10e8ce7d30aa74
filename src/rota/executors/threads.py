"""Threads that run `def` handlers.

Not the standard library's pool: a thread whose attempt timed out cannot be ended, only left
behind, and its place must not be missing afterwards.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class ThreadPool:
    """Threads are started when needed, kept for the next attempt, and daemons, so that one
    that never returns does not keep the process from ending."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = 0
        self._count = 0
        self._lock = threading.Lock()

    def call(self, body: Callable[[], _T]) -> asyncio.Future[_T]:
        """The body's result. When cancelled, the thread goes on and its result is dropped.

        A future and not a task: a task hands SystemExit and KeyboardInterrupt on to the loop,
        and a handler that raises them would end the worker.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(
                    target=self._run, name=f"rota thread {self._count}", daemon=True
                ).start()
        self._work.put((loop, future, body))
        return future

    def close(self) -> None:
        with self._lock:
            count, self._count = self._count, 0
        for _ in range(count):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            loop, future, body = work
            # Its own context: what a handler sets is not there for the next one.
            result, error = contextvars.Context().run(_outcome, body)
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                return  # The loop is closed: nobody waits.
            del work, loop, future, body, result, error


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
        # A future refuses it, as it would end the coroutine that waits.
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
