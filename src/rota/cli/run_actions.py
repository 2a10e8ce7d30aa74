"""`rota runs cancel`, `retry` and `delete`: runs by their ids, or all that fit a filter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rota.cli import run_filters as flags
from rota.cli import values
from rota.cli.flags import Json, Reason
from rota.cli.output import print_json, remark, say
from rota.cli.progress import progress
from rota.cli.runs import commands
from rota.cli.session import actor, administer

if TYPE_CHECKING:
    from rota.admin.runs import SyncRuns
    from rota.model.bulk import BulkItem, BulkResult

Action = Literal["cancel", "retry", "delete"]
RunIds = Annotated[
    list[int] | None, typer.Argument(metavar="ID", help="One or more runs; or filters.")
]
Limit = Annotated[
    int, typer.Option("--limit", min=1, max=100_000, metavar="N", help="At most so many.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

_DOING = {"cancel": "cancelling", "retry": "retrying", "delete": "deleting"}
_WORDS = {
    "cancelled": "cancelled",
    "requested": "is running: its worker was asked to stop",
    "retried": "will run again",
    "deleted": "deleted",
}


@commands.command("cancel")
def cancel(
    ctx: typer.Context,
    ids: RunIds = None,
    state: flags.State = None,
    job: flags.JobName = None,
    queue: flags.QueueName = None,
    tag: flags.Tag = None,
    tenant: flags.Tenant = None,
    key: flags.Key = None,
    schedule: flags.ScheduleName = None,
    since: flags.Since = None,
    until: flags.Until = None,
    limit: Limit = 1000,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Cancel runs: waiting ones at once, running ones by asking their worker."""
    wanted = flags.read(
        state=state, job=job, queue=queue, tag=tag, tenant=tenant, key=key, schedule=schedule,
        since=since, until=until, dead=False,
    )  # fmt: skip
    how = {"limit": limit, "reason": reason}
    return _act(ctx, "cancel", ids, wanted, how, dry_run, yes, json)


@commands.command("retry")
def retry(
    ctx: typer.Context,
    ids: RunIds = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE|-", help="Run with this payload instead."),
    ] = None,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Not before then.")] = None,
    state: flags.State = None,
    job: flags.JobName = None,
    queue: flags.QueueName = None,
    tag: flags.Tag = None,
    tenant: flags.Tenant = None,
    key: flags.Key = None,
    schedule: flags.ScheduleName = None,
    since: flags.Since = None,
    until: flags.Until = None,
    dead: flags.Dead = False,
    limit: Limit = 1000,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Put failed or cancelled runs back to work, each under its id."""
    wanted = flags.read(
        state=state, job=job, queue=queue, tag=tag, tenant=tenant, key=key, schedule=schedule,
        since=since, until=until, dead=dead,
    )  # fmt: skip
    how = {
        "limit": limit,
        "reason": reason,
        "payload": values.payload(payload, "--payload"),
        "delay": values.seconds(delay, "--delay"),
    }
    return _act(ctx, "retry", ids, wanted, how, dry_run, yes, json)


@commands.command("delete")
def delete(
    ctx: typer.Context,
    ids: RunIds = None,
    state: flags.State = None,
    job: flags.JobName = None,
    queue: flags.QueueName = None,
    tag: flags.Tag = None,
    tenant: flags.Tenant = None,
    key: flags.Key = None,
    schedule: flags.ScheduleName = None,
    since: flags.Since = None,
    until: flags.Until = None,
    dead: flags.Dead = False,
    limit: Limit = 1000,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Remove ended runs with their attempts and log lines."""
    wanted = flags.read(
        state=state, job=job, queue=queue, tag=tag, tenant=tenant, key=key, schedule=schedule,
        since=since, until=until, dead=dead,
    )  # fmt: skip
    how = {"limit": limit, "reason": reason}
    return _act(ctx, "delete", ids, wanted, how, dry_run, yes, json)


def _act(
    ctx: typer.Context,
    action: Action,
    ids: list[int] | None,
    wanted: dict[str, Any],
    how: dict[str, Any],
    dry_run: bool,
    yes: bool,
    is_json: bool,
) -> int:
    if not ids and not wanted:
        values.refuse("ID", "say which runs: their ids, or filters such as --job and --state")
    if ids and wanted:
        values.refuse("ID", "ids and filters exclude each other")
    asked = how | wanted | ({"ids": ids, "limit": max(len(ids), 1)} if ids else {})
    with administer(ctx) as app:
        runs = app.runs.by(actor()).sync
        total = len(ids) if ids else None
        if not ids and not dry_run and not yes:
            total = _confirm(runs, action, asked)
        with progress(f"{_DOING[action]} runs", total) as bar:
            result = _call(runs, action, asked | {"dry_run": dry_run, "on_progress": bar.advance})
    return _print(result, is_json, is_short=not ids and len(result.items) > 20)


def _call(runs: SyncRuns, action: Action, asked: dict[str, Any]) -> BulkResult:
    act = {"cancel": runs.cancel_many, "retry": runs.retry_many, "delete": runs.delete_many}
    return act[action](**asked)


def _confirm(runs: SyncRuns, action: Action, asked: dict[str, Any]) -> int:
    """A filter may fit more than one thinks: say how many before it is too late."""
    would = _call(runs, action, asked | {"dry_run": True})
    if not would.done:
        return 0
    if not sys.stdin.isatty():
        values.refuse("--yes", f"is needed to {action} {would.done} runs by a filter")
    more = " and more" if would.has_more else ""
    typer.confirm(f"{action} {would.done} runs{more}?", abort=True, err=True)
    return len(would.items)


def _print(result: BulkResult, is_json: bool, *, is_short: bool) -> int:
    if is_json:
        print_json(result)
        return 1 if result.refused else 0
    if not result.items:
        remark("no runs fit")
    for one in result.items:
        if not one.is_done:
            _print_refusal(result, one)
        elif not is_short:
            say(f"run {one.id} {'would be: ' if result.is_dry_run else ''}{_WORDS[one.outcome]}")
    if is_short:
        would = "would be " if result.is_dry_run else ""
        say(f"{result.done} runs {would}{_past(result)}, {result.refused} refused")
    if result.has_more:
        remark(f"there are more: the limit of {len(result.items)} was reached")
    return 1 if result.refused else 0


def _print_refusal(result: BulkResult, one: BulkItem) -> None:
    hints = {
        "retry": "Only a run that failed or was cancelled can be retried.",
        "delete": "Only a run that has ended can be deleted.",
    }
    remark(f"error: {one.reason}")
    if f"run {one.id} is " in (one.reason or "") and result.action in hints:
        remark(f"hint: {hints[result.action]}")


def _past(result: BulkResult) -> str:
    return {"cancel": "cancelled", "retry": "retried", "delete": "deleted"}[result.action]
