"""`rota runs cancel`, `retry` and `delete`: runs by id, or all that match a filter."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rota.cli.operations import add_actions
from rota.cli.runs import filters as flags
from rota.cli.runs.bulk_pages import print_action, print_preview
from rota.cli.runs.filters import filtered
from rota.cli.runs.runs import commands
from rota.cli.session import actor, administer
from rota.cli.terminal import values
from rota.cli.terminal.flags import Json, Reason
from rota.cli.terminal.output import print_json, remark, say
from rota.cli.terminal.progress import progress
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.bulk import BulkItem, BulkResult
    from rota.model.run_counts import RunCounts

Action = Literal["cancel", "retry", "delete"]
RunIds = Annotated[
    list[int] | None, typer.Argument(metavar="ID", help="One or more run IDs; or use filters.")
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, metavar="N", help="Maximum number of runs the filter may select."
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        min=0.01,
        max=1_000_000,
        metavar="N",
        help="With a filter: maximum runs per second.",
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="With a filter: return at once and let workers do it.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done without doing it.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")]

_DOING = {"cancel": "cancelling", "retry": "retrying", "delete": "deleting"}
_WORDS = {
    "cancelled": "cancelled",
    "requested": "is running; its worker was asked to stop it",
    "retried": "will run again",
    "deleted": "deleted",
}


@commands.command("cancel")
@filtered
def cancel(
    ctx: typer.Context,
    ids: RunIds = None,
    *,
    wanted: flags.Wanted,
    limit: Limit = None,
    rate: Rate = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Cancel runs. Waiting ones end at once; for running ones, the worker is asked to stop."""
    how = _How(reason, limit=limit, rate=rate, is_detached=detach)
    return _act(ctx, "cancel", ids, wanted, how, dry_run, yes, json)


@commands.command("retry")
@filtered
def retry(
    ctx: typer.Context,
    ids: RunIds = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE|-", help="Replace the payload."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wait at least this long before the retry."),
    ] = None,
    *,
    wanted: flags.Wanted,
    limit: Limit = None,
    rate: Rate = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Retry failed or cancelled runs, keeping their IDs."""
    retrial = {
        "payload": values.payload(payload, "--payload"),
        "delay": values.seconds(delay, "--delay"),
    }
    how = _How(reason, limit=limit, rate=rate, is_detached=detach, retrial=retrial)
    return _act(ctx, "retry", ids, wanted, how, dry_run, yes, json)


@commands.command("delete")
@filtered
def delete(
    ctx: typer.Context,
    ids: RunIds = None,
    *,
    wanted: flags.Wanted,
    limit: Limit = None,
    rate: Rate = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Delete finished runs with their attempts and log lines."""
    how = _How(reason, limit=limit, rate=rate, is_detached=detach)
    return _act(ctx, "delete", ids, wanted, how, dry_run, yes, json)


@dataclass(frozen=True)
class _How:
    reason: str | None
    limit: int | None
    rate: float | None
    is_detached: bool
    retrial: dict[str, Any] = field(default_factory=dict)


def _act(
    ctx: typer.Context,
    action: Action,
    ids: list[int] | None,
    wanted: dict[str, Any],
    how: _How,
    dry_run: bool,
    yes: bool,
    is_json: bool,
) -> int:
    if not ids and not wanted:
        values.refuse("ID", "pass run IDs, or filters such as --job and --state")
    if ids and (wanted or how.limit or how.rate or how.is_detached):
        values.refuse("ID", "run IDs cannot be combined with filters, --limit, --rate or --detach")
    with administer(ctx) as app:
        if ids:
            return _act_on_ids(app, action, ids, how, dry_run, is_json)
        return _act_on_filter(app, action, wanted, how, dry_run, yes, is_json)


def _act_on_ids(
    app: App, action: Action, ids: list[int], how: _How, dry_run: bool, is_json: bool
) -> int:
    runs = app.runs.by(actor()).sync
    act: dict[str, Any] = {
        "cancel": runs.cancel_many,
        "retry": runs.retry_many,
        "delete": runs.delete_many,
    }
    with progress(f"{_DOING[action]} runs", len(ids)) as bar:
        result = act[action](
            ids, dry_run=dry_run, reason=how.reason, on_progress=bar.advance, **how.retrial
        )
    return _print(result, is_json)


def _act_on_filter(
    app: App,
    action: Action,
    wanted: dict[str, Any],
    how: _How,
    dry_run: bool,
    yes: bool,
    is_json: bool,
) -> int:
    """Start a bulk action and follow it until its end; this command takes part in the work."""
    bulk = app.bulk.by(actor()).sync
    if dry_run or not yes:
        would = bulk.preview(action, seconds=10, **wanted)
        if dry_run:
            print_preview(action, would, is_json)
            return 0
        if not _confirm(action, would, how.limit):
            return 0
    started = bulk.start(
        action, limit=how.limit, rate=how.rate, reason=how.reason, **how.retrial, **wanted
    )
    if how.is_detached:
        return print_action(started, is_json)
    remark(f"bulk action {started.id}; it continues if this command is interrupted")
    with progress(f"{_DOING[action]} runs", started.total) as bar:
        ended = bulk.carry_out(started.id, bar.advance, bar.expect)
    return print_action(ended, is_json)


def _confirm(action: Action, would: RunCounts, limit: int | None) -> bool:
    """Ask with the number of runs: a filter may match more than expected."""
    if not would.runs:
        remark("no runs match")
        return False
    many = plural(would.runs, "run") if would.is_exact else f"{would.runs:,} or more runs"
    if limit is not None and limit < would.runs:
        many = plural(limit, "run")
    if not sys.stdin.isatty():
        values.refuse("--yes", f"required to {action} {many} by filter without a terminal")
    typer.confirm(f"{action.capitalize()} {many}?", abort=True, err=True)
    return True


def _print(result: BulkResult, is_json: bool) -> int:
    if is_json:
        print_json(result)
        return 1 if result.refused else 0
    for item in result.items:
        if not item.is_done:
            _print_refusal(result, item)
        else:
            say(f"run {item.id} {'would be: ' if result.is_dry_run else ''}{_WORDS[item.outcome]}")
    return 1 if result.refused else 0


def _print_refusal(result: BulkResult, one: BulkItem) -> None:
    hints = {
        "retry": "Only a run that failed or was cancelled can be retried.",
        "delete": "Only a run that has ended can be deleted.",
    }
    remark(f"error: {one.reason}")
    if f"run {one.id} is " in (one.reason or "") and result.action in hints:
        remark(f"hint: {hints[result.action]}")


add_actions(commands, "runs", None)
