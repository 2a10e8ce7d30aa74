"""Reads workers, and drains and resumes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from rota.errors import WorkerNotFound
from rota.model.list_filters import TimeOrder, WorkerFilters
from rota.model.overview import RunningRun
from rota.model.page import Page
from rota.model.worker import WorkerInfo
from rota.postgres.pages import check_filters, check_order, read_all, read_page
from rota.postgres.plans import Ask, Plan


def list_workers(
    *, order: str = "newest", **filters: Unpack[WorkerFilters]
) -> Plan[list[WorkerInfo]]:
    order, params = check_order(order, TimeOrder), _filters(filters)
    return read_all("workers/list", params, WorkerInfo, order=order)


def page_workers(
    *, order: str, cursor: Sequence[Any] | None, limit: int, **filters: Unpack[WorkerFilters]
) -> Plan[Page[WorkerInfo]]:
    order, params = check_order(order, TimeOrder), _filters(filters)
    return read_page("workers/list", params, WorkerInfo, order=order, cursor=cursor, limit=limit)


def _filters(given: WorkerFilters, worker_id: int | None = None) -> dict[str, Any]:
    check_filters(given, WorkerFilters, "workers")
    status = given.get("status")
    return {
        "id": worker_id,
        "status": status,
        "host": given.get("host"),
        "include_gone": given.get("include_gone", False) or status in ("gone", "lost"),
    }


def find_worker(worker_id: int) -> Plan[WorkerInfo]:
    found = yield from read_all("workers/list", _filters({}, worker_id), WorkerInfo)
    if not found:
        raise WorkerNotFound(f"there is no worker {worker_id}")
    return found[0]


def list_running(worker_id: int, limit: int) -> Plan[list[RunningRun]]:
    rows = yield Ask("workers/running", {"worker": worker_id, "limit": limit})
    return [RunningRun(**row) for row in rows]


def drain_worker(
    worker_id: int, *, stop: bool, at_once: bool = False, reason: str | None, actor: str | None
) -> Plan[bool]:
    """Drain a worker: it stops claiming and ticking, finishes its attempts, and then waits or
    stops. Return False if it was already draining."""
    params = {
        "worker": worker_id, "stop": stop, "at_once": at_once, "reason": reason, "actor": actor,
    }  # fmt: skip
    (row,) = yield Ask("workers/drain", params)
    return bool(row["is_changed"])


def resume_worker(worker_id: int, *, reason: str | None, actor: str | None) -> Plan[bool]:
    """Resume a worker; return False if it was not draining."""
    params = {"worker": worker_id, "reason": reason, "actor": actor}
    (row,) = yield Ask("workers/resume", params)
    return bool(row["is_changed"])
