"""Reads workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from rota.errors import WorkerNotFound
from rota.model.overview import RunningRun
from rota.model.page import Page
from rota.model.worker import WorkerFilters, WorkerInfo, WorkerOrder
from rota.postgres.pages import check_filters, check_order, read_all, read_page
from rota.postgres.plans import Execute, Plan


def list_workers(
    *, order: str = "newest", include_gone: bool = False, **filters: Unpack[WorkerFilters]
) -> Plan[list[WorkerInfo]]:
    order, params = check_order(order, WorkerOrder), _params(filters, include_gone)
    return read_all("workers/list", params, WorkerInfo, order=order)


def page_workers(
    *,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
    include_gone: bool = False,
    **filters: Unpack[WorkerFilters],
) -> Plan[Page[WorkerInfo]]:
    order, params = check_order(order, WorkerOrder), _params(filters, include_gone)
    return read_page("workers/list", params, WorkerInfo, order=order, cursor=cursor, limit=limit)


def _params(
    given: WorkerFilters, include_gone: bool = False, worker_id: int | None = None
) -> dict[str, Any]:
    check_filters(given, WorkerFilters, "workers")
    status = given.get("status")
    return {
        "id": worker_id,
        "status": status,
        "host": given.get("host"),
        "include_gone": include_gone or status in ("gone", "lost"),
    }


def find_worker(worker_id: int) -> Plan[WorkerInfo]:
    found = yield from read_all("workers/list", _params({}, worker_id=worker_id), WorkerInfo)
    if not found:
        raise WorkerNotFound(f"there is no worker {worker_id}")
    return found[0]


def list_running(worker_id: int, limit: int) -> Plan[list[RunningRun]]:
    rows = yield Execute("workers/running", {"worker": worker_id, "limit": limit})
    return [RunningRun(**row) for row in rows]
