"""A worker beside a test, with or without an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Self

from rota.app import App
from rota.model.run import RunInfo
from rota.testing import running


class TestWorker:
    """A worker for tests: it runs for the duration of a block, or until nothing is left to do.

    async with worker: …      in the test's event loop
    with worker: …            in a thread, for tests without an event loop
    await worker.run_all()    executes what is due now; `run_all_sync` without an event loop
    """

    __test__ = False  # pytest takes it for a class of tests

    def __init__(self, app: App) -> None:
        self._app = app
        self._worker: Any = None
        self._thread: _Thread | None = None

    async def __aenter__(self) -> Self:
        await self._app.database.open()  # a worker would wait for a server that is away
        self._worker = self._app.worker()
        await self._worker.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        worker, self._worker = self._worker, None
        await worker.__aexit__(*error)

    def __enter__(self) -> Self:
        self._app.database.open_sync()
        self._thread = _Thread(self._app)
        self._thread.begin()
        return self

    def __exit__(self, *_: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    async def run_all(self, timeout: float = 30.0) -> list[RunInfo]:
        return await running.run_all(self._app, timeout)

    def run_all_sync(self, timeout: float = 30.0) -> list[RunInfo]:
        return running.run_all_sync(self._app, timeout)

    async def tick(self) -> list[RunInfo]:
        return await running.tick(self._app)

    def tick_sync(self) -> list[RunInfo]:
        return running.tick_sync(self._app)


class _Thread:
    """A thread that runs a worker on an event loop of its own."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._thread = threading.Thread(target=self._run, name="rota test worker", daemon=True)
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def end(self) -> None:
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self._started.set()

    async def _work(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._app.worker():
                self._started.set()
                await self._stopping.wait()
        finally:
            await self._app.runs.close()
            await self._app.database.close()
