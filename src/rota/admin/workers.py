"""What one can know of workers, and tell them."""

from __future__ import annotations

from rota.admin.face import AsyncFace, Face, SyncFace, command
from rota.model.worker import WorkerInfo
from rota.store import workers
from rota.store.plans import Plan

Found = list[WorkerInfo]


class WorkerCommands(Face):
    @command
    def list(self, *, include_gone: bool = False) -> Plan[Found]:
        """Live, stopping and lost workers, the newest first; on request those that left, too."""
        return workers.list_workers(include_gone=include_gone)

    @command
    def get(self, worker_id: int) -> Plan[WorkerInfo]:
        """One worker; WorkerNotFound if there is none, or none any more."""
        return workers.find_worker(worker_id)

    @command
    def drain(self, worker_id: int, reason: str | None = None, *, stop: bool = False) -> Plan[None]:
        """Claim and tick no more, hand back what has not started, finish what runs however long it
        takes; then wait to be resumed, or with `stop` end."""
        return workers.drain_worker(worker_id, stop=stop, reason=reason, actor=self.actor)

    @command
    def resume(self, worker_id: int, reason: str | None = None) -> Plan[None]:
        """Let a draining worker claim again."""
        return workers.resume_worker(worker_id, reason=reason, actor=self.actor)


class Workers(WorkerCommands, AsyncFace):
    """`app.workers`"""

    @property
    def sync(self) -> SyncWorkers:
        return SyncWorkers(self.database, self.actor)


class SyncWorkers(WorkerCommands, SyncFace):
    """`app.workers.sync`"""
