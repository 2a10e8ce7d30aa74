"""The loops that run beside the slots of every worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rota.config import Config
from rota.engine.attempts.progress import ProgressBoard
from rota.engine.lease.health import Health
from rota.engine.logs.log_buffer import LogBuffer
from rota.engine.logs.log_indexes import LogIndexes
from rota.engine.loop import Loop
from rota.engine.loops.admission import Admission
from rota.engine.loops.bulk_actions import BulkActionLoop
from rota.engine.loops.drain import DrainLoop
from rota.engine.loops.kept_ends import KeptEnds
from rota.engine.loops.promoter import Promoter
from rota.engine.loops.rescuer import Rescuer
from rota.engine.loops.scheduler import Scheduler
from rota.engine.loops.shared_loops import SharedLoops
from rota.engine.loops.sql_jobs import SqlJobs
from rota.engine.loops.tenants import TenantLoop
from rota.engine.loops.upkeep import Upkeep
from rota.engine.metrics.rollups import Rollups
from rota.engine.pace import Pace
from rota.postgres.sessions.pool import Database
from rota.postgres.workers.orders import Order
from rota.telemetry.logger import get_logger

_LAST_SECONDS = 5.0


class Background:
    """Creates and starts the loops; on stop, writes the remaining logs, progress and counters."""

    def __init__(
        self,
        *,
        config: Config,
        database: Database,
        on_sql_jobs: Callable[[], Awaitable[bool]],
        on_order: Callable[[Order], Awaitable[None]],
        health: Health,
        pace: Pace,
    ) -> None:
        worker, logs = config.worker, config.logs
        self._log = get_logger("worker")
        self.logs = LogBuffer(
            database,
            buffer_lines=logs.buffer_lines,
            buffer_bytes=logs.buffer_bytes,
            flush_seconds=logs.flush_seconds,
            line_bytes=logs.line_bytes,
        )
        self.progress = ProgressBoard(database)
        self.rollups = Rollups(database)
        self.promoter = Promoter(database, poll_seconds=worker.poll_seconds)
        self.upkeep = Upkeep(
            database,
            unknown_job_seconds=worker.unknown_job_seconds,
            refused_payload_seconds=worker.refused_payload_seconds,
        )
        self.scheduler = Scheduler(
            database,
            tick_seconds=config.scheduler.tick_seconds,
            burst_seconds=config.scheduler.burst_seconds,
        )
        self.drain = DrainLoop(database, lease_seconds=worker.lease_seconds, on_order=on_order)
        self.sql_jobs = SqlJobs(database, on_sql_jobs)
        self.bulk_actions = BulkActionLoop(database)
        self.tenants = TenantLoop(database)
        self.admission = Admission(database)
        self._own: list[Loop] = [
            self.logs,
            self.progress,
            self.rollups,
            self.drain,
            self.sql_jobs,
            # In every worker, because a run that ends here may make room at once.
            self.admission,
        ]
        kept_ends = KeptEnds(database, on_written=self.admission.ended)
        self.upkeep.on_open = kept_ends.wake
        shared: list[Loop] = [
            self.promoter,
            kept_ends,
            self.upkeep,
            self.bulk_actions,
            self.tenants,
            LogIndexes(database),
            Rescuer(database, lease_seconds=worker.lease_seconds),
        ]
        self.shared_loops = SharedLoops(
            shared,
            {
                "due": self.promoter,
                "kept": kept_ends,
                "schedules": self.scheduler,
                "bulk": self.bulk_actions,
                "tenants": self.tenants,
                "limits": self.admission,
                "upkeep": self.upkeep,
            },
            self.scheduler if config.scheduler.enabled else None,
        )
        self._all = [*self._own, *shared, self.scheduler]
        for loop in self._all:
            loop.on_turn = self.count_turn
            loop.has_backlog = lambda: self._has_backlog()
            loop.turns = health.of(loop.name, loop.long_seconds)
            loop.pace = pace

        self.rollups.before_write = self._count_lines
        self._lines = (0, 0)
        self._has_backlog: Callable[[], bool] = lambda: False

    def _count_lines(self) -> None:
        """Count the lines that the log buffer has stored and dropped since the last call."""
        before, self._lines = self._lines, (self.logs.stored_total, self.logs.dropped_total)
        self.rollups.counters.note("lines_stored", self._lines[0] - before[0])
        self.rollups.counters.note("lines_dropped", self._lines[1] - before[1])

    def count_turn(self, loop: str, is_well: bool) -> None:
        """Count the errors of every loop; of good turns only ticks, because they show that
        schedules are processed."""
        if not is_well:
            self.rollups.counters.note("loop_errors", loop=loop)
        elif loop == self.scheduler.name:
            self.rollups.counters.note("ticks")

    def look_again(self) -> None:
        """Wake the loops that rely on calls: calls may have been lost."""
        for loop in (
            self.promoter,
            self.scheduler,
            self.drain,
            self.bulk_actions,
            self.tenants,
            self.admission,
            self.sql_jobs,
        ):
            loop.wake()

    def restart(self, name: str) -> None:
        """Restart a stuck loop."""
        for loop in self._all:
            if loop.name == name:
                loop.restart()

    @property
    def _writers(self) -> list[Loop]:
        return [self.logs, self.progress, self.rollups]

    def serve(self, worker: int, has_backlog: Callable[[], bool]) -> None:
        """Write under this worker id from now on."""
        self._has_backlog = has_backlog
        self.progress.worker = worker
        self.rollups.worker = worker
        self.scheduler.serve(worker)

    async def start(self) -> None:
        for loop in self._own:
            loop.start()
        await self.shared_loops.start()

    async def stop(self) -> None:
        await self.shared_loops.stop()
        for loop in reversed(self._own):
            await loop.stop()
        for writer in self._writers:
            try:
                async with asyncio.timeout(_LAST_SECONDS):
                    await writer.run_once()
            except Exception as error:
                self._log.warning("the last logs or counters could not be stored", error=error)
