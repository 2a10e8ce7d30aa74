"""The output about bulk actions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from rota.cli.terminal import times
from rota.cli.terminal.output import print_json, remark, say, table
from rota.model.formatting import plural, rate

if TYPE_CHECKING:
    from rota.model.bulk_action import BulkAction
    from rota.model.run_counts import RunCounts

HEADERS = ("ID>", "STATE", "ACTION", "DONE>", "OF>", "SKIPPED>", "FAILED>", "BY", "STARTED", "NOTE")
PAST = {"cancel": "cancelled", "retry": "retried", "delete": "deleted"}


def row(action: BulkAction, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    return (
        action.id,
        action.state,
        action.verb,
        action.done,
        total(action),
        action.skipped,
        action.failed,
        action.actor,
        times.shown(action.created_at, now, is_absolute),
        news(action),
    )


def total(action: BulkAction) -> str:
    return f"{action.total:,}" if action.is_counted else f"{action.total:,}+"


def news(action: BulkAction) -> str:
    """Return why the action does not continue; otherwise its reason."""
    if action.state == "running" and action.error:
        return f"stuck: {action.error}"
    if action.state == "running" and not action.has_worker:
        return "waiting for a live worker"
    return action.reason or ""


def facts_of(action: BulkAction, now: datetime) -> Iterator[tuple[str, object]]:
    yield "action", action.verb
    yield "state", action.state
    yield "runs", ", ".join(f"{name} {value}" for name, value in action.filter.items())
    yield PAST[action.verb], f"{action.done:,} of {total(action)}"
    yield "skipped", action.skipped
    yield "failed", action.failed
    yield "limit", action.limit
    yield "rate", rate(action.rate)
    yield "delay", None if action.delay_seconds is None else times.span(action.delay_seconds)
    yield "started", f"{times.shown(action.created_at, now, False)} by {action.actor}"
    yield "ended", times.shown(action.finished_at, now, False) if action.finished_at else None
    yield "reason", action.reason
    if action.state == "running" and (action.error or not action.has_worker):
        yield "note", news(action)
    for problem in action.problems:
        yield f"run {problem['id']}", problem["reason"]


def print_action(action: BulkAction, is_json: bool) -> int:
    """Print an action after its start or end; return 1 if a run could not be acted on."""
    if is_json:
        print_json(action)
        return 1 if action.failed else 0
    if action.state == "running":
        say(f"bulk action {action.id} started")
        if not action.has_worker:
            remark("no worker is live; it begins when one starts")
        return 0
    if action.state != "finished":
        say(f"bulk action {action.id} is {action.state}")
    elif not action.worked:
        remark("no runs match")
    if action.worked:
        others = f", {action.skipped:,} skipped, {action.failed:,} failed"
        say(f"{plural(action.done, 'run')} {PAST[action.verb]}{others}")
    for problem in action.problems:
        remark(f"error: {problem['reason']}")
    return 1 if action.failed else 0


def print_preview(verb: str, found: RunCounts, is_json: bool) -> None:
    if is_json:
        print_json(found)
    elif not found.runs:
        remark("no runs match")
    else:
        table(("JOB", "STATE", "RUNS>"), [(one.job, one.state, one.runs) for one in found.groups])
        more = "" if found.is_exact else " or more"
        remark(f"{plural(found.runs, 'run')}{more} would be {PAST[verb]}")
