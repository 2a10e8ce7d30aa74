"""Maintenance statements. Those with a limit return how much they have done, so that the caller
goes on while the limit is reached."""

from __future__ import annotations

from typing import NamedTuple

from rota.postgres.queries import Query, first, nothing, number


class LogIndex(NamedTuple):
    """The statements that drop a half-built index, if any, build the index, and run afterwards."""

    leftover: str | None
    statement: str
    analysis: str


def make_partitions() -> Query[None]:
    """Create partitions from yesterday until a week from now."""
    return Query("upkeep/partitions", {}, nothing)


def mark_id() -> Query[None]:
    return Query("upkeep/mark_id", {}, nothing)


def count_depths(max_age_seconds: float) -> Query[None]:
    """Count waiting runs, unless the last count is younger than this."""
    return Query("upkeep/count_depths", {"seconds": max_age_seconds}, nothing)


def take_sample() -> Query[None]:
    """Store the state of this minute, for charts."""
    return Query("upkeep/take_sample", {}, nothing)


def is_at_rest() -> Query[bool]:
    """Return whether upkeep has no pending work that matters to users."""
    return Query("upkeep/is_at_rest", {}, lambda rows: bool(rows[0][0]))


def expire(limit: int) -> Query[int]:
    return Query("upkeep/expire", {"limit": limit}, number)


def park(limit: int) -> Query[int]:
    """Park runs whose job no live worker knows, so that claims skip them."""
    return Query("upkeep/park", {"limit": limit}, number)


def free(limit: int) -> Query[int]:
    """Release parked runs whose job a worker knows again."""
    return Query("upkeep/free", {"limit": limit}, number)


def fail_unknown(limit: int, *, after_seconds: float) -> Query[None]:
    """Fail parked runs that have waited for this long."""
    params = {"seconds": after_seconds, "limit": limit}
    return Query("upkeep/fail_unknown", params, nothing)


def hold_refused(limit: int) -> Query[int]:
    """Hold runs whose payload no live worker accepts."""
    return Query("upkeep/hold_refused", {"limit": limit}, number)


def free_refused(limit: int) -> Query[int]:
    """Release held runs if a live worker has not refused their payload yet."""
    return Query("upkeep/free_refused", {"limit": limit}, number)


def fail_refused(limit: int, *, after_seconds: float) -> Query[int]:
    """Fail runs that no worker has accepted for this long."""
    params = {"seconds": after_seconds, "limit": limit}
    return Query("upkeep/fail_refused", params, number)


def sweep(limit: int) -> Query[int]:
    return Query("upkeep/sweep", {"limit": limit}, number)


def sweep_responses(limit: int) -> Query[int]:
    """Delete stored responses of the API whose idempotency keys have expired."""
    return Query("upkeep/sweep_responses", {"limit": limit}, number)


def settle_ends(limit: int) -> Query[None]:
    """Apply ends of runs that were stored for their schedules, because rows were locked."""
    return Query("upkeep/settle_ends", {"limit": limit}, nothing)


def mend_limits() -> Query[None]:
    """Correct counters of limits that differ from the runs."""
    return Query("upkeep/mend_limits", {}, nothing)


def fold_rollups(minutes: int) -> Query[None]:
    return Query("upkeep/fold_rollups", {"limit": minutes}, nothing)


def fold_counters() -> Query[None]:
    return Query("upkeep/fold_counters", {}, nothing)


def fold_errors(limit: int) -> Query[int]:
    return Query("upkeep/fold_errors", {"limit": limit}, number)


def tidy_errors() -> Query[None]:
    return Query("upkeep/tidy_errors", {}, nothing)


def next_log_index(least_bytes: int) -> Query[LogIndex | None]:
    """Return a partition of log lines that needs its index, if there is one."""
    params = {"least_bytes": least_bytes}
    return Query("upkeep/next_log_index", params, first(LogIndex._make))
