"""Reading workers and telling them to drain."""

from __future__ import annotations

from rota.errors import WorkerNotFound
from rota.model.worker import WorkerInfo
from rota.store.plans import Ask, Plan


def list_workers(*, include_gone: bool) -> Plan[list[WorkerInfo]]:
    """The newest first."""
    rows = yield Ask("workers/list", {"id": None, "include_gone": include_gone})
    return [WorkerInfo(**row) for row in rows]


def find_worker(worker_id: int) -> Plan[WorkerInfo]:
    rows = yield Ask("workers/list", {"id": worker_id, "include_gone": True})
    if not rows:
        raise WorkerNotFound(f"there is no worker {worker_id}")
    return WorkerInfo(**rows[0])


def drain_worker(
    worker_id: int, *, stop: bool, reason: str | None, actor: str | None
) -> Plan[None]:
    """It claims and ticks no more, finishes what it runs, and then waits or stops."""
    params = {"worker": worker_id, "stop": stop, "reason": reason, "actor": actor}
    yield Ask("workers/drain", params)


def resume_worker(worker_id: int, *, reason: str | None, actor: str | None) -> Plan[None]:
    yield Ask("workers/resume", {"worker": worker_id, "reason": reason, "actor": actor})
