"""`rota bulk`: actions on all runs of a filter. `rota runs retry --job …` starts one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.runs.bulk_pages import HEADERS, facts_of, row
from rota.cli.session import actor, administer
from rota.cli.terminal import paging, values
from rota.cli.terminal.flags import Absolute, Json, Reason
from rota.cli.terminal.output import facts, print_json, remark, say, table
from rota.cli.terminal.watch import watched
from rota.model import words

if TYPE_CHECKING:
    from rota.model.bulk_action import BulkAction

commands = typer.Typer(
    name="bulk",
    help="Bulk actions: retry, cancel or delete by filter.",
    no_args_is_help=True,
)
Id = Annotated[int, typer.Argument(metavar="ID", help="Bulk action ID.")]
STATES = ("running", "paused", "stopped", "finished")


@commands.command("list")
@watched
def list_actions(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help=f"State: {', '.join(STATES)}.")
    ] = None,
    limit: paging.Limit = 50,
    after: paging.AfterId = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List bulk actions, newest first."""
    with administer(ctx) as app:
        wanted = values.choice(state, STATES, "--state")
        found = app.bulk.sync.page(state=wanted, limit=limit, cursor=paging.place(after))
        now = app.clock.sync.now()
    if json:
        print_json(found.items)
    elif found.items:
        table(HEADERS, [row(action, now, absolute) for action in found.items])
    else:
        remark("no bulk actions")
    paging.more(len(found.items), found.cursor)


@commands.command("show")
@watched
def show(ctx: typer.Context, action_id: Id, json: Json = False) -> None:
    """Show one bulk action: its filter, progress and errors."""
    with administer(ctx) as app:
        found = app.bulk.sync.get(action_id)
        now = app.clock.sync.now()
    if json:
        print_json(found)
    else:
        facts(facts_of(found, now))


@commands.command("pause")
def pause(ctx: typer.Context, action_id: Id, reason: Reason = None, json: Json = False) -> None:
    """Pause a bulk action after the current batch."""
    with administer(ctx) as app:
        _tell(app.bulk.by(actor()).sync.pause(action_id, reason), "is paused", json)


@commands.command("resume")
def resume(ctx: typer.Context, action_id: Id, reason: Reason = None, json: Json = False) -> None:
    """Resume a paused bulk action where it left off."""
    with administer(ctx) as app:
        _tell(app.bulk.by(actor()).sync.resume(action_id, reason), "is resumed", json)


@commands.command("stop")
def stop(ctx: typer.Context, action_id: Id, reason: Reason = None, json: Json = False) -> None:
    """Stop a bulk action permanently. Changes already made are kept."""
    with administer(ctx) as app:
        _tell(app.bulk.by(actor()).sync.stop(action_id, reason), "is stopped", json)


@commands.command("throttle")
def throttle(
    ctx: typer.Context,
    action_id: Id,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.01, max=1_000_000, metavar="N", help="Maximum runs per second. Default: no limit."
        ),
    ] = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Change the rate limit of a bulk action. Without `--rate`, removes it."""
    with administer(ctx) as app:
        action = app.bulk.by(actor()).sync.throttle(action_id, rate, reason)
    _tell(
        action, "has no rate limit" if rate is None else f"is limited to {words.rate(rate)}", json
    )


def _tell(action: BulkAction, what: str, is_json: bool) -> None:
    if is_json:
        print_json(action)
    else:
        say(f"bulk action {action.id} {what}; {words.plural(action.done, 'run')} done")
