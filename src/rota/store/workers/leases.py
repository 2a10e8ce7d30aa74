"""Leases: renewed, held up by somebody's transaction, and lost."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rota.store.queries import Query, each, first, has_any, nothing


class Holder(NamedTuple):
    """Who holds a row in a transaction that is not over."""

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
    """Renews the lease; returns whether there was one to renew. For its row, if somebody holds it,
    it waits no longer than `wait_ms`."""
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
    """Who holds the worker's row. A lock on the whole table has no holder of the row."""
    return Query("workers/holder", {"worker": worker}, first(Holder._make))


def mark_lost() -> Query[list[LostWorker]]:
    """Declare everybody lost whose lease has run out."""
    return Query("workers/mark_lost", {}, each(LostWorker._make))


def declare_lost(worker: int) -> Query[bool]:
    """This one, whose process has ended; returns whether it was live until now."""
    return Query("workers/declare_lost", {"worker": worker}, has_any)


def end_backends(worker: int) -> Query[None]:
    """End the open transactions of its attempts, which would block those that follow."""
    return Query("workers/end_backends", {"worker": worker}, nothing)
