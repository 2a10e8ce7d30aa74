"""The small duties that keep an installation in order, one statement each. Those that have a limit
answer how much they have done, so that whoever asks goes on while it is as much as the limit."""

from __future__ import annotations

from typing import NamedTuple

from rota.store.queries import Query, first, nothing, number


class LogIndex(NamedTuple):
    """What to drop first, if something was left half built; what to build; what to run then."""

    leftover: str | None
    statement: str
    analysis: str


def make_partitions() -> Query[None]:
    """From yesterday until a week from now."""
    return Query("upkeep/partitions", {}, nothing)


def mark_id() -> Query[None]:
    return Query("upkeep/mark_id", {}, nothing)


def count_depths(max_age_seconds: float) -> Query[None]:
    """How much waits where; not counted again while the last count is younger."""
    return Query("upkeep/count_depths", {"seconds": max_age_seconds}, nothing)


def take_sample() -> Query[None]:
    """The state of this minute, for charts."""
    return Query("upkeep/take_sample", {}, nothing)


def is_at_rest() -> Query[bool]:
    """Whether upkeep would find nothing that somebody waits for."""
    return Query("upkeep/is_at_rest", {}, lambda rows: bool(rows[0][0]))


def expire(limit: int) -> Query[int]:
    return Query("upkeep/expire", {"limit": limit}, number)


def park(limit: int) -> Query[int]:
    """Runs whose job no live worker knows: out of the claims' way."""
    return Query("upkeep/park", {"limit": limit}, number)


def free(limit: int) -> Query[int]:
    """Parked runs whose job somebody knows again."""
    return Query("upkeep/free", {"limit": limit}, number)


def fail_unknown(limit: int, *, after_seconds: float) -> Query[None]:
    """Those that have waited in vain for so long."""
    params = {"seconds": after_seconds, "limit": limit}
    return Query("upkeep/fail_unknown", params, nothing)


def hold_refused(limit: int) -> Query[int]:
    """Runs whose payload no live worker takes."""
    return Query("upkeep/hold_refused", {"limit": limit}, number)


def free_refused(limit: int) -> Query[int]:
    """Those that a worker may take which has come since."""
    return Query("upkeep/free_refused", {"limit": limit}, number)


def fail_refused(limit: int, *, after_seconds: float) -> Query[int]:
    """Those that nobody took for so long."""
    params = {"seconds": after_seconds, "limit": limit}
    return Query("upkeep/fail_refused", params, number)


def sweep(limit: int) -> Query[int]:
    return Query("upkeep/sweep", {"limit": limit}, number)


def sweep_responses(limit: int) -> Query[int]:
    """Responses of the API whose idempotency keys have expired."""
    return Query("upkeep/sweep_responses", {"limit": limit}, number)


def settle_ends(limit: int) -> Query[None]:
    """Ends of runs that their schedules have not heard of."""
    return Query("upkeep/settle_ends", {"limit": limit}, nothing)


def mend_limits() -> Query[None]:
    """Counters of limits that differ from the runs."""
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
    """A partition of log lines that wants its index; None: there is none."""
    params = {"least_bytes": least_bytes}
    return Query("upkeep/next_log_index", params, first(LogIndex._make))
