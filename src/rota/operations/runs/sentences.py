"""What the operations of a run say: what they did, and what they would mean for it."""

from __future__ import annotations

from rota.model.run import Cancelled, RunInfo
from rota.operations.registry import ShowTime


def cancelled(result: Cancelled, is_changed: bool, at: ShowTime) -> str:
    return "is cancelled" if result == "cancelled" else "was asked to stop"


def before_cancel(run: RunInfo) -> str:
    if run.state == "running":
        return "Its worker is asked to stop it; work already done is not undone."
    return f"It is {run.state} and will not start."


def deleted(result: None, is_changed: bool, at: ShowTime) -> str:
    return "is deleted"


def before_delete(run: RunInfo) -> str:
    return "It cannot be restored. The audit records the deletion, not the payload."


def handled(run: RunInfo, is_changed: bool, at: ShowTime) -> str:
    return "handled"


def before_handle(run: RunInfo) -> str:
    return (
        "It stays failed and keeps its history. If it is retried and fails again, it needs "
        "attention again."
    )


def reopened(run: RunInfo, is_changed: bool, at: ShowTime) -> str:
    return "reopened"


def before_reopen(run: RunInfo) -> str:
    return "It will need attention again."
