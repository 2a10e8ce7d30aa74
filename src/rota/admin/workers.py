"""What one can know of workers."""

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


class Workers(WorkerCommands, AsyncFace):
    """`app.workers`"""

    @property
    def sync(self) -> SyncWorkers:
        return SyncWorkers(self.database, self.actor)


class SyncWorkers(WorkerCommands, SyncFace):
    """`app.workers.sync`"""
