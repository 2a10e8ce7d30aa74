"""Reading workers."""

from __future__ import annotations

from rota.model.worker import WorkerInfo
from rota.store.plans import Ask, Plan


def list_workers(*, include_gone: bool) -> Plan[list[WorkerInfo]]:
    """The newest first."""
    rows = yield Ask("workers/list", {"include_gone": include_gone})
    return [WorkerInfo(**row) for row in rows]
