"""Leases: renewing them, detecting transactions that block them, and declaring workers lost."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rota.postgres.queries import Query, each, first, has_any, nothing


class Holder(NamedTuple):
    """A session that locks a row in an open transaction."""

    pid: int
    since: datetime
    query: str


class LostWorker(NamedTuple):
    worker: int
    name: str


def beat(
    worker: int,
    *,
    wait_ms: int,
    is_stuck: bool,
    claimed_seconds: float | None,
    finished_seconds: float | None,
    errors: int,
    trouble: str | None,
    memory_bytes: int | None,
    cpu_seconds: float | None,
) -> Query[bool]:
    """Renew the lease; return whether there was one to renew. If the row is locked, wait no longer
    than `wait_ms`."""
    params = {
        "worker": worker,
        "wait": wait_ms,
        "stuck": is_stuck,
        "claimed": claimed_seconds,
        "finished": finished_seconds,
        "errors": errors,
        "trouble": trouble,
        "memory_bytes": memory_bytes,
        "cpu_seconds": cpu_seconds,
    }
    return Query("workers/beat", params, lambda rows: bool(rows and rows[0][1]))


def holder(worker: int) -> Query[Holder | None]:
    """Return the session that locks the worker's row. A lock on the whole table is not found."""
    return Query("workers/holder", {"worker": worker}, first(Holder._make))


def mark_lost() -> Query[list[LostWorker]]:
    """Declare workers lost whose lease has expired."""
    return Query("workers/mark_lost", {}, each(LostWorker._make))


def declare_lost(worker: int) -> Query[bool]:
    """Declare a worker lost whose process has ended; return whether it was live until now."""
    return Query("workers/declare_lost", {"worker": worker}, has_any)


def end_backends(worker: int) -> Query[None]:
    """Terminate the open transactions of its attempts, which would block later ones."""
    return Query("workers/end_backends", {"worker": worker}, nothing)
