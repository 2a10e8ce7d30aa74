"""Waiting for runs to end: one poller a process asks for all of them at once.

A NOTIFY for each end would make one queue of all commits.
"""

from __future__ import annotations

import asyncio
import time

from rota.errors import WaitTimeout
from rota.model.run import RunInfo
from rota.model.states import END_STATES
from rota.store.pool import Database
from rota.store.runs import find_run, still_open

_FIRST = 0.01
_LONGEST = 0.25


class Waits:
    """Awaited runs of one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._pause = _FIRST

    async def wait(self, run_id: int, timeout: float | None) -> RunInfo:
        """The run once it has ended; WaitTimeout if it does not in time."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    info = await self._database.run(find_run(run_id))
                    if info.state in END_STATES:
                        return info
                    await self._gone(run_id)
        except TimeoutError:
            raise WaitTimeout(f"run {run_id} had not ended after {timeout:g} s") from None

    async def _gone(self, run_id: int) -> None:
        """Until the run is open no more."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, []).append(future)
        self._pause = _FIRST
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll(), name="rota waits")
        try:
            await future
        finally:
            waiters = self._waiting.get(run_id, [])
            if future in waiters:
                waiters.remove(future)
            if not waiters:
                self._waiting.pop(run_id, None)

    async def _poll(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 1.5, _LONGEST)
            try:
                ids = list(self._waiting)
                open_ids = await self._database.run(still_open(ids))
            except Exception as error:
                for waiters in self._waiting.values():
                    for future in waiters:
                        if not future.done():
                            future.set_exception(error)
                return
            for run_id in ids:
                if run_id not in open_ids:
                    for future in self._waiting.pop(run_id, []):
                        if not future.done():
                            future.set_result(None)

    async def close(self) -> None:
        poller, self._poller = self._poller, None
        self._waiting.clear()
        while poller is not None and not poller.done():
            # Again and again: before Python 3.12 a cancellation can get lost in the driver.
            poller.cancel()
            await asyncio.wait((poller,), timeout=_LONGEST)


class LoopWaits:
    """The waits of the event loop that asked last: those of another one ended with it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waits: Waits | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self, run_id: int, timeout: float | None) -> RunInfo:
        loop = asyncio.get_running_loop()
        if self._waits is None or self._loop is not loop:
            self._waits, self._loop = Waits(self._database), loop
        return await self._waits.wait(run_id, timeout)

    async def close(self) -> None:
        if self._waits is not None and self._loop is asyncio.get_running_loop():
            await self._waits.close()


def wait_sync(database: Database, run_id: int, timeout: float | None) -> RunInfo:
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST
    while True:
        info = database.run_sync(find_run(run_id))
        if info.state in END_STATES:
            return info
        if deadline is not None and time.monotonic() + pause > deadline:
            raise WaitTimeout(f"run {run_id} had not ended after {timeout:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST)
