"""`rota views`: named filters of the dashboard's list of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Absolute, Json, Reason
from rota.cli.terminal.output import print_json, remark, table, tell
from rota.cli.terminal.watch import watched

commands = typer.Typer(
    name="views", help="Views: saved filters for the list of runs.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="View name.")]


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
        remark("no views; save one in the dashboard's list of runs, or with `rota views save`")


@commands.command("save")
def save(
    ctx: typer.Context,
    name: Name,
    query: Annotated[
        str,
        typer.Argument(metavar="FILTER", help="Filter as in the page URL: state=failed&since=24h."),
    ],
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Save a filter under a name, replacing any view with that name."""
    with administer(ctx) as app:
        app.views.by(actor()).sync.save(name, query, reason)
    tell(json, f'view "{name}" saved', name=name, query=query)


@commands.command("delete")
def delete(ctx: typer.Context, name: Name, reason: Reason = None, json: Json = False) -> None:
    """Delete a saved view. Its runs are not affected."""
    with administer(ctx) as app:
        app.views.by(actor()).sync.delete(name, reason)
    tell(json, f'view "{name}" deleted', name=name)
