"""Commands about workers: read, drain, stop and resume them."""

from __future__ import annotations

from typing import Unpack

from rota.model.list_filters import TimeOrder, WorkerFilters
from rota.model.overview import RunningRun
from rota.model.page import Page
from rota.model.worker import WorkerInfo
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.postgres.plans import Plan
from rota.postgres.workers import workers

Found = list[WorkerInfo]
Running = list[RunningRun]


class WorkerCommands(Commands):
    @command
    def list(self, *, order: TimeOrder = "newest", **filters: Unpack[WorkerFilters]) -> Plan[Found]:
        """List live, stopping and recently lost workers, the `newest` or the `oldest` first;
        filtered by `status` and `host`. `include_gone` includes workers that shut down cleanly or
        were lost more than ten minutes ago."""
        return workers.list_workers(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: TimeOrder = "newest",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[WorkerFilters],
    ) -> Plan[Page[WorkerInfo]]:
        """One page of that list, with the cursor of the next."""
        return workers.page_workers(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, worker_id: int) -> Plan[WorkerInfo]:
        """One worker. Raises WorkerNotFound if there is none, or it was removed."""
        return workers.find_worker(worker_id)

    @command
    def drain(self, worker_id: int, reason: str | None = None, *, stop: bool = False) -> Plan[bool]:
        """Make a worker stop claiming runs and processing schedules, return runs that have not
        started, and finish its running attempts, however long they take; then it waits to be
        resumed, or exits with `stop`. Returns whether it changed: False if it was already asked
        to."""
        return workers.drain_worker(worker_id, stop=stop, reason=reason, actor=self.actor)

    @command
    def stop(
        self, worker_id: int, reason: str | None = None, *, at_once: bool = False
    ) -> Plan[bool]:
        """Make a worker exit when its running attempts have ended, however long they take.
        `at_once` works like a SIGTERM: attempts that run longer than `worker.shutdown_seconds` are
        stopped and requeued without using an attempt. Returns whether it changed: False if it was
        already asked to."""
        return workers.drain_worker(
            worker_id, stop=True, at_once=at_once, reason=reason, actor=self.actor
        )

    @command
    def running(self, worker_id: int, *, limit: int = 100) -> Plan[Running]:
        """The running attempts of a worker, longest first."""
        return workers.list_running(worker_id, limit)

    @command
    def resume(self, worker_id: int, reason: str | None = None) -> Plan[bool]:
        """Let a draining worker claim again. Returns whether it changed: False if it was not
        draining."""
        return workers.resume_worker(worker_id, reason=reason, actor=self.actor)


class Workers(WorkerCommands, AsyncCommands):
    """`app.workers`"""

    @property
    def sync(self) -> SyncWorkers:
        return SyncWorkers(self.database, self.actor)


class SyncWorkers(WorkerCommands, SyncCommands):
    """`app.workers.sync`"""
