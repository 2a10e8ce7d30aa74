"""What a worker reads and writes about runs that it has claimed, beside their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rota.store.queries import Query, column, each, nothing, number


class Held(NamedTuple):
    """A run and its attempt, as the fence names them."""

    run: int
    attempt: int


class CancelRequest(NamedTuple):
    run: int
    attempt: int
    requested_by: str
    reason: str | None


class ProgressReport(NamedTuple):
    run: int
    attempt: int
    fraction: float
    message: str | None


def hand_back(worker: int, runs: Sequence[Held | tuple[int, int]]) -> Query[None]:
    """What has not started goes back into its queue; no attempt is spent."""
    params = {
        "worker": worker,
        "ids": [run for run, _ in runs],
        "attempts": [attempt for _, attempt in runs],
    }
    return Query("runs/hand_back", params, nothing)


def strays(worker: int) -> Query[list[Held]]:
    """All that the database believes this worker to hold."""
    return Query("runs/strays", {"worker": worker}, each(Held._make))


def settle_kept_ends(limit: int) -> Query[int]:
    """Write ends that were kept; returns how many are left."""
    return Query("runs/settle_kept_ends", {"limit": limit}, number)


def time_out(worker: int, run: int, attempt: int, timeout: float) -> Query[None]:
    """Written by whoever watches a process that cannot do it itself any more."""
    params = {"worker": worker, "id": run, "attempt": attempt, "timeout": timeout}
    return Query("runs/time_out", params, nothing)


def cancel_requests(worker: int) -> Query[list[CancelRequest]]:
    return Query("runs/cancel_requests", {"worker": worker}, each(CancelRequest._make))


def report_progress(worker: int, reports: Sequence[ProgressReport]) -> Query[list[int]]:
    """Returns the runs that somebody holds: what was said of them is not written."""
    params = {
        "worker": worker,
        "ids": [one.run for one in reports],
        "attempts": [one.attempt for one in reports],
        "fractions": [one.fraction for one in reports],
        "messages": [one.message for one in reports],
    }
    return Query("runs/progress", params, column)
