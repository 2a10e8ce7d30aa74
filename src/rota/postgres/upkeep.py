"""Maintenance statements. Those with a limit return how much they have done, so that the caller
goes on while the limit is reached."""

from __future__ import annotations

from typing import NamedTuple

from rota.postgres.queries import Query, calling, first, nothing, number


class LogIndex(NamedTuple):
    """The statements that drop a half-built index, if any, build the index, and run afterwards."""

    leftover: str | None
    statement: str
    analysis: str


def make_partitions() -> Query[None]:
    """Create partitions from yesterday until a week from now."""
    return Query("upkeep/partitions", {}, nothing)


def mark_id() -> Query[None]:
    return calling("mark_id", nothing)


def count_depths(max_age_seconds: float) -> Query[None]:
    """Count waiting runs, unless the last count is younger than this."""
    return calling("count_depths", nothing, max_age_seconds=max_age_seconds)


def take_sample() -> Query[None]:
    """Store the state of this minute, for charts."""
    return calling("take_sample", nothing)


def is_at_rest() -> Query[bool]:
    """Return whether upkeep has no pending work that matters to users."""
    return Query("upkeep/is_at_rest", {}, lambda rows: bool(rows[0][0]))


def expire(limit: int) -> Query[int]:
    return calling("expire_runs", number, max_runs=limit)


def park(limit: int) -> Query[int]:
    """Park runs whose job no live worker knows, so that claims skip them."""
    return calling("park_unknown_runs", number, max_runs=limit)


def free(limit: int) -> Query[int]:
    """Release parked runs whose job a worker knows again."""
    return calling("free_known_runs", number, max_runs=limit)


def fail_unknown(limit: int, *, after_seconds: float) -> Query[None]:
    """Fail parked runs that have waited for this long."""
    return calling("fail_unknown_runs", nothing, after_seconds=after_seconds, max_runs=limit)


def hold_refused(limit: int) -> Query[int]:
    """Hold runs whose payload no live worker accepts."""
    return calling("hold_refused_runs", number, max_runs=limit)


def free_refused(limit: int) -> Query[int]:
    """Release held runs if a live worker has not refused their payload yet."""
    return calling("free_refused_runs", number, max_runs=limit)


def fail_refused(limit: int, *, after_seconds: float) -> Query[int]:
    """Fail runs that no worker has accepted for this long."""
    return calling("fail_refused_runs", number, after_seconds=after_seconds, max_runs=limit)


def sweep(limit: int) -> Query[int]:
    return calling("sweep", number, max_rows=limit)


def sweep_responses(limit: int) -> Query[int]:
    """Delete stored responses of the API whose idempotency keys have expired."""
    return calling("sweep_responses", number, max_rows=limit)


def settle_ends(limit: int) -> Query[None]:
    """Apply ends of runs that were stored for their schedules, because rows were locked."""
    return calling("settle_schedule_ends", nothing, most=limit)


def mend_limits() -> Query[None]:
    """Correct counters of limits that differ from the runs."""
    return calling("mend_limits", nothing)


def fold_rollups(minutes: int) -> Query[None]:
    return calling("fold_rollups", nothing, max_minutes=minutes)


def fold_counters() -> Query[None]:
    return calling("fold_counts", nothing)


def fold_errors(limit: int) -> Query[int]:
    return calling("fold_errors", number, max_changes=limit)


def tidy_errors() -> Query[None]:
    return calling("tidy_errors", nothing)


def next_log_index(least_bytes: int) -> Query[LogIndex | None]:
    """Return a partition of log lines that needs its index, if there is one."""
    params = {"least_bytes": least_bytes}
    return Query("upkeep/next_log_index", params, first(LogIndex._make))
