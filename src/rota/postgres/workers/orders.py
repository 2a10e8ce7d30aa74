"""Orders of operators to a worker, as the worker reads them."""

from __future__ import annotations

from typing import NamedTuple

from rota.postgres.queries import Query, nothing


class Order(NamedTuple):
    is_draining: bool = False
    is_to_stop: bool = False
    is_to_hurry: bool = False


def read_order(worker: int) -> Query[Order]:
    return Query(
        "workers/orders",
        {"worker": worker},
        lambda rows: Order._make(rows[0]) if rows else Order(),
    )


def keep_draining(worker: int, former: int) -> Query[None]:
    """Apply the drain order of the former id of a worker to its new one."""
    return Query("workers/keep_draining", {"worker": worker, "former": former}, nothing)


def saw_drain(worker: int) -> Query[None]:
    """Record that the worker has started to drain."""
    return Query("workers/saw_drain", {"worker": worker}, nothing)
