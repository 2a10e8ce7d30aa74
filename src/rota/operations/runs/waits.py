"""Waiting for runs to end, async and sync."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import asynccontextmanager

from rota.errors import WaitTimeout
from rota.model.run import RunEnd, RunInfo
from rota.model.states import END_STATES
from rota.operations.runs.end_watch import EndWatch
from rota.postgres.runs.runs import find_run
from rota.postgres.sessions.pool import Database


class Waits:
    """The waits of one application. Async and sync callers share one watch."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ends = EndWatch(database)

    async def end(self, run_id: int, timeout: float | None) -> RunEnd:
        """Return the end of the run; raise WaitTimeout if it does not end in time."""
        async with self._limit(run_id, timeout):
            while True:
                end = await asyncio.wrap_future(self._ends.watch(run_id))
                if end is not None:
                    return end
                run = await self._database.run(find_run(run_id))
                if run.state in END_STATES:
                    return RunEnd.of(run)

    async def run(self, run_id: int, timeout: float | None) -> RunInfo:
        """Return the whole run once it has ended."""
        async with self._limit(run_id, timeout):
            while True:
                await asyncio.wrap_future(self._ends.watch(run_id))
                run = await self._database.run(find_run(run_id))
                if run.state in END_STATES:
                    return run

    @asynccontextmanager
    async def _limit(self, run_id: int, timeout: float | None) -> AsyncIterator[None]:
        await self._database.open()
        try:
            async with asyncio.timeout(timeout):
                yield
        except TimeoutError:
            raise _late(run_id, timeout) from None

    def end_sync(self, run_id: int, timeout: float | None) -> RunEnd:
        deadline = _deadline(timeout)
        end = self._told_sync(run_id, deadline)
        return end or RunEnd.of(self._find_sync(run_id, timeout, deadline))

    def run_sync(self, run_id: int, timeout: float | None) -> RunInfo:
        deadline = _deadline(timeout)
        self._told_sync(run_id, deadline)
        return self._find_sync(run_id, timeout, deadline)

    def _find_sync(self, run_id: int, timeout: float | None, deadline: float | None) -> RunInfo:
        while True:
            run = self._database.run_sync(find_run(run_id))
            if run.state in END_STATES:
                return run
            if deadline is not None and time.monotonic() >= deadline:
                raise _late(run_id, timeout)
            self._told_sync(run_id, deadline)  # it was requeued meanwhile

    def _told_sync(self, run_id: int, deadline: float | None) -> RunEnd | None:
        end = self._ends.watch(run_id)
        try:
            return end.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except FutureTimeout:
            return None
        finally:
            end.cancel()

    async def close(self) -> None:
        await asyncio.to_thread(self._ends.close)

    def close_sync(self) -> None:
        self._ends.close()


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _late(run_id: int, timeout: float | None) -> WaitTimeout:
    return WaitTimeout(f"run {run_id} had not ended after {timeout:.12g} s")
