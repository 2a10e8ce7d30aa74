"""`rota bulk`: actions on all runs of a filter. `rota runs retry --job …` starts one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.operations import add_actions
from rota.cli.program import DECLARED
from rota.cli.runs.bulk_pages import HEADERS, facts_of, row
from rota.cli.session import administer
from rota.cli.terminal import paging, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.output import facts, print_json, remark, table
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    pass

commands = typer.Typer(name="bulk", help=DECLARED["bulk"], no_args_is_help=True)
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


add_actions(commands, "bulk", None)
