"""What an operator has told a worker, as that worker reads it."""

from __future__ import annotations

from typing import NamedTuple

from rota.store.queries import Query, nothing


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
    """What it was told under its former number holds for this one, too."""
    return Query("workers/keep_draining", {"worker": worker, "former": former}, nothing)


def saw_drain(worker: int) -> Query[None]:
    """It has obeyed."""
    return Query("workers/saw_drain", {"worker": worker}, nothing)
