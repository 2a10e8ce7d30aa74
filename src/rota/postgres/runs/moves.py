"""Moves runs on behalf of all workers: due ones, and those of lost workers."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from rota.postgres.queries import Query, each


class Promoted(NamedTuple):
    """The number of promoted runs, and the seconds until the next one is due."""

    runs: int
    next_seconds: float


class Rescued(NamedTuple):
    run: int
    attempt: int
    worker: int
    decision: str


def promote(limit: int) -> Query[Promoted]:
    """Promote due runs."""

    def read(rows: list[tuple[int, float | None]]) -> Promoted:
        moved, seconds = rows[0] if rows else (0, None)
        return Promoted(moved, inf if seconds is None else seconds)

    return Query("runs/promote", {"limit": limit}, read)


def rescue(limit: int, *, everywhere: bool) -> Query[list[Rescued]]:
    """Rescue the runs of lost workers; `everywhere` reads all claimed runs, which is slow."""
    params = {"limit": limit, "everywhere": everywhere}
    return Query("runs/rescue", params, each(Rescued._make))
