"""What one can do with runs. The same functions serve Python, the CLI and the API."""

from __future__ import annotations

import asyncio

from rota.admin.waits import Waits, wait_sync
from rota.model.run import RunInfo
from rota.store import runs
from rota.store.pool import Database


class Runs:
    """`app.runs`, and what the handles of runs speak to. Methods in _sync are for sync callers."""

    def __init__(self, database: Database, actor: str | None = None) -> None:
        self._database = database
        self._actor = actor
        self._waits: Waits | None = None
        self._waits_loop: asyncio.AbstractEventLoop | None = None

    async def get_run(self, run_id: int) -> RunInfo:
        return await self._database.run(runs.find_run(run_id))

    def get_run_sync(self, run_id: int) -> RunInfo:
        return self._database.run_sync(runs.find_run(run_id))

    async def wait_run(self, run_id: int, timeout: float | None) -> RunInfo:
        loop = asyncio.get_running_loop()
        if self._waits is None or self._waits_loop is not loop:
            self._waits, self._waits_loop = Waits(self._database), loop
        return await self._waits.wait(run_id, timeout)

    def wait_run_sync(self, run_id: int, timeout: float | None) -> RunInfo:
        return wait_sync(self._database, run_id, timeout)

    async def cancel_run(self, run_id: int, reason: str | None = None) -> str:
        return await self._database.run(runs.cancel_run(run_id, reason=reason, actor=self._actor))

    def cancel_run_sync(self, run_id: int, reason: str | None = None) -> str:
        return self._database.run_sync(runs.cancel_run(run_id, reason=reason, actor=self._actor))

    async def retry_run(self, run_id: int, reason: str | None = None) -> None:
        await self._database.run(
            runs.retry_run(run_id, payload=None, delay=None, reason=reason, actor=self._actor)
        )

    def retry_run_sync(self, run_id: int, reason: str | None = None) -> None:
        self._database.run_sync(
            runs.retry_run(run_id, payload=None, delay=None, reason=reason, actor=self._actor)
        )

    async def close(self) -> None:
        if self._waits is not None and self._waits_loop is asyncio.get_running_loop():
            await self._waits.close()
