"""What the handles of runs use to reach their run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.model.run import RunEnd, RunInfo

if TYPE_CHECKING:
    from rota.operations.runs.runs import Runs


class HandleReader:
    """A `RunReader` (`jobs/handle.py`) on the runs of an application."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def get_run(self, run_id: int) -> RunInfo:
        return await self._runs.get(run_id)

    def get_run_sync(self, run_id: int) -> RunInfo:
        return self._runs.sync.get(run_id)

    async def wait_run(self, run_id: int, timeout: float | None) -> RunEnd:
        return await self._runs.waits.end(run_id, timeout)

    def wait_run_sync(self, run_id: int, timeout: float | None) -> RunEnd:
        return self._runs.waits.end_sync(run_id, timeout)

    async def cancel_run(self, run_id: int, reason: str | None) -> str:
        return await self._runs.cancel(run_id, reason)

    def cancel_run_sync(self, run_id: int, reason: str | None) -> str:
        return self._runs.sync.cancel(run_id, reason)

    async def retry_run(self, run_id: int, reason: str | None) -> None:
        await self._runs.retry(run_id, reason)

    def retry_run_sync(self, run_id: int, reason: str | None) -> None:
        self._runs.sync.retry(run_id, reason)
