"""`rota views`: named filters of the dashboard's list of runs."""

from __future__ import annotations

import typer

from rota.cli.operations import add_actions
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.output import print_json, remark, table
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched

commands = typer.Typer(name="views", help=DECLARED["views"], no_args_is_help=True)


@commands.command("list")
@watched
def list_views(ctx: typer.Context, absolute: Absolute = False, json: Json = False) -> None:
    """List all saved views by name."""
    with administer(ctx) as app:
        found = app.views.sync.list()
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        rows = [
            (view.name, view.query, view.created_by, times.shown(view.created_at, now, absolute))
            for view in found
        ]
        table(("NAME", "FILTER", "BY", "SAVED"), rows)
    else:
        remark(
            f"no views; save one in the dashboard's list of runs, or with {shown('views', 'save')}"
        )


add_actions(commands, "views", None)
