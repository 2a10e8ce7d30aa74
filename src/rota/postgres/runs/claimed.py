"""Statements of a worker about its claimed runs, except their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rota.postgres.queries import Query, column, each, nothing, number


class Held(NamedTuple):
    """A run and its attempt, as in the fence."""

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
    """Hand back runs that have not started; this uses no attempt."""
    params = {
        "worker": worker,
        "ids": [run for run, _ in runs],
        "attempts": [attempt for _, attempt in runs],
    }
    return Query("runs/hand_back", params, nothing)


def strays(worker: int) -> Query[list[Held]]:
    """Return all runs that the worker owns according to the database."""
    return Query("runs/strays", {"worker": worker}, each(Held._make))


def settle_kept_ends(limit: int) -> Query[int]:
    """Write kept ends; return how many are left."""
    return Query("runs/settle_kept_ends", {"limit": limit}, number)


def time_out(worker: int, run: int, attempt: int, timeout: float) -> Query[None]:
    """Time out an attempt, on behalf of a process that no longer can."""
    params = {"worker": worker, "id": run, "attempt": attempt, "timeout": timeout}
    return Query("runs/time_out", params, nothing)


def cancel_requests(worker: int) -> Query[list[CancelRequest]]:
    return Query("runs/cancel_requests", {"worker": worker}, each(CancelRequest._make))


def report_progress(worker: int, reports: Sequence[ProgressReport]) -> Query[list[int]]:
    """Store progress; return the locked runs, whose reports were not written."""
    params = {
        "worker": worker,
        "ids": [report.run for report in reports],
        "attempts": [report.attempt for report in reports],
        "fractions": [report.fraction for report in reports],
        "messages": [report.message for report in reports],
    }
    return Query("runs/progress", params, column)
