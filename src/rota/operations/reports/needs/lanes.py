"""Queues, tenants and limits in words."""

from __future__ import annotations

from rota.model.formatting import duration, number, plural
from rota.model.queue import QueueInfo
from rota.operations.command_line import line_of, of_tenant
from rota.operations.reports.needs.kind import AttentionText, pause_words
from rota.postgres.reports.attention import FullQueue, LimitTrouble, PausedTenant


def full(row: FullQueue) -> AttentionText:
    wait = plural(row.waiting, "run waits", "runs wait")
    refuses = row.when_full == "refuse"
    dropped = "the runs with the lowest priority are dropped"
    return AttentionText(
        row.name,
        f"is full: {wait}, the cap is {number(row.max_waiting)}",
        "new runs are refused" if refuses else dropped,
        row.full_since,
        line_of("queues", "get", row.name),
        {"waiting": row.waiting, "max_waiting": row.max_waiting},
        state="failed" if refuses else "warn",
    )


def paused(queue: QueueInfo) -> AttentionText:
    wait = plural(queue.queued, "run waits", "runs wait") if queue.queued else "nothing waits"
    if queue.oldest_seconds is not None:
        wait += ", the oldest for " if queue.queued > 1 else ", for "
        wait += str(duration(queue.oldest_seconds))
    return AttentionText(
        queue.name,
        f"is paused: {wait}",
        pause_words(queue.paused_by, queue.pause_reason, queue.paused_until),
        queue.paused_at,
        line_of("queues", "resume", queue.name),
        {"waiting": queue.queued, "oldest_seconds": queue.oldest_seconds},
    )


def paused_tenant(row: PausedTenant) -> AttentionText:
    return AttentionText(
        row.name,
        f"is paused: {plural(row.waiting, 'run waits', 'runs wait')}",
        pause_words(row.paused_by, row.pause_reason, row.paused_until),
        row.paused_at,
        line_of("tenants", "resume", row.name),
        {"waiting": row.waiting},
    )


def limit(row: LimitTrouble) -> AttentionText:
    """Report a sequence that does not advance, or a counter that differs from its runs."""
    is_blocked = row.what == "blocked"
    if is_blocked:
        waiting = plural(row.keys, "sequence waits", "sequences wait")
        says = f"is blocked: {waiting} for the success of a run"
        reason = f"run {row.run} failed, and the next run requires its success"
    else:
        says = f"counted {row.counted} in use instead of {row.held}, and was corrected"
        reason = "rows were changed without Rota's functions, or this is a bug in Rota"
    return AttentionText(
        row.name,
        says,
        reason,
        row.since,
        line_of("limits", "unblock" if is_blocked else "get", row.name, **of_tenant(row.tenant)),
        {"keys": row.keys, "run": row.run},
        row.tenant,
        "failed" if is_blocked else "warn",
    )
