"""Workers: reading them, and what people do with them."""

from __future__ import annotations

from typing import Unpack

from rota.model.formatting import plural
from rota.model.overview import RunningRun
from rota.model.page import Page
from rota.model.worker import (
    AtOnce,
    IncludeGone,
    Order,
    ThenStop,
    WorkerFilters,
    WorkerId,
    WorkerInfo,
)
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.postgres.plans import Plan, call
from rota.postgres.workers import workers

Found = list[WorkerInfo]
Running = list[RunningRun]


def _drained(worker: WorkerInfo, is_changed: bool, at: ShowTime) -> str:
    is_now = "is" if is_changed else "was already"
    if worker.is_to_hurry:
        return f"{is_now} stopping"
    return f"{is_now} draining{', then stops' if worker.is_to_stop else ''}"


def _before_drain(worker: WorkerInfo) -> str:
    if not worker.running:
        return "Nothing is running now."
    return f"Running attempts ({worker.running:,}) take as long as they need."


def _before_stop(worker: WorkerInfo) -> str:
    attempts = plural(worker.running, "attempt is", "attempts are")
    running = f"{attempts} running now" if worker.running else "Nothing is running now"
    return f"{running}. Rota does not restart a stopped worker."


def _resumed(worker: WorkerInfo, is_changed: bool, at: ShowTime) -> str:
    return "is resumed" if is_changed else "was not draining"


def _before_resume(worker: WorkerInfo) -> str:
    also = ", and does not stop" if worker.is_to_stop else ""
    return f"It claims runs and processes schedules again{also}."


class WorkerCommands(Commands):
    noun = Noun("worker", "workers", WorkerInfo, key="id")

    @command
    def list(
        self,
        *,
        order: Order = "newest",
        include_gone: IncludeGone = False,
        **filters: Unpack[WorkerFilters],
    ) -> Plan[Found]:
        """List live, stopping and recently lost workers, newest or oldest first.

        Those that shut down, or were lost more than ten minutes ago, are listed only with
        `include_gone` or the status `gone` or `lost`."""
        return workers.list_workers(order=order, include_gone=include_gone, **filters)

    @command
    def page(
        self,
        *,
        order: Order = "newest",
        include_gone: IncludeGone = False,
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[WorkerFilters],
    ) -> Plan[Page[WorkerInfo]]:
        """One page of that list, with the cursor of the next."""
        return workers.page_workers(
            order=order, include_gone=include_gone, cursor=cursor, limit=limit, **filters
        )

    @command
    def get(self, worker_id: WorkerId) -> Plan[WorkerInfo]:
        """Get one worker.

        Raises WorkerNotFound if there is none, or it was removed."""
        return workers.find_worker(worker_id)

    @command
    def running(self, worker_id: WorkerId, *, limit: int = 100) -> Plan[Running]:
        """The running attempts of a worker, longest first."""
        return workers.list_running(worker_id, limit)

    @operation(says=_drained, asks=_before_drain, is_reason_optional=True)
    def drain(
        self, worker_id: WorkerId, reason: Reason = None, *, stop: ThenStop = False
    ) -> Plan[bool]:
        """Drain a worker: it stops claiming runs and processing schedules, returns runs that have
        not started, finishes running attempts, then waits to be resumed or exits.

        Running attempts take as long as they need. Returns whether it changed: False if it was
        already asked to."""
        request = call("drain_worker", worker=worker_id, stop=stop, reason=reason, actor=self.actor)
        return bool((yield from request))

    @operation(says=_drained, asks=_before_stop, is_reason_optional=True, is_dangerous=True)
    def stop(
        self, worker_id: WorkerId, reason: Reason = None, *, at_once: AtOnce = False
    ) -> Plan[bool]:
        """Stop a worker once its running attempts finish, or at once, like SIGTERM.

        `at_once`: attempts that run longer than `worker.shutdown_seconds` are stopped and requeued
        without using an attempt. Returns whether it changed: False if it was already asked to."""
        given = {"worker": worker_id, "stop": True, "at_once": at_once, "reason": reason}
        return bool((yield from call("drain_worker", **given, actor=self.actor)))

    @operation(says=_resumed, asks=_before_resume, is_reason_optional=True)
    def resume(self, worker_id: WorkerId, reason: Reason = None) -> Plan[bool]:
        """Resume a draining worker.

        Returns whether it changed: False if it was not draining."""
        resumed = call("resume_worker", worker=worker_id, reason=reason, actor=self.actor)
        return bool((yield from resumed))


class Workers(WorkerCommands, AsyncCommands):
    """`app.workers`"""

    @property
    def sync(self) -> SyncWorkers:
        return SyncWorkers(self.database, self.actor)


class SyncWorkers(WorkerCommands, SyncCommands):
    """`app.workers.sync`"""
