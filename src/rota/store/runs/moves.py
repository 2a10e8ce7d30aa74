"""Runs that workers move for everybody: what has become due, and what lost workers held."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from rota.store.queries import Query, each


class Promoted(NamedTuple):
    """How many were moved into their queues, and when the next one is due, in seconds."""

    runs: int
    next_seconds: float


class Rescued(NamedTuple):
    run: int
    attempt: int
    worker: int
    decision: str


def promote(limit: int) -> Query[Promoted]:
    """Move runs whose time has come into their queues."""

    def read(rows: list[tuple[int, float | None]]) -> Promoted:
        moved, seconds = rows[0] if rows else (0, None)
        return Promoted(moved, inf if seconds is None else seconds)

    return Query("runs/promote", {"limit": limit}, read)


def rescue(limit: int, *, everywhere: bool) -> Query[list[Rescued]]:
    """Take back what lost workers held; `everywhere` reads all that is claimed, which is slow."""
    params = {"limit": limit, "everywhere": everywhere}
    return Query("runs/rescue", params, each(Rescued._make))
