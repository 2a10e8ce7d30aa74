"""`rota watches`: tables whose written rows become events."""

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

commands = typer.Typer(name="watches", help=DECLARED["watches"], no_args_is_help=True)


@commands.command("list")
@watched
def list_watches(ctx: typer.Context, absolute: Absolute = False, json: Json = False) -> None:
    """List watched tables. Also shows watches whose trigger or table is no longer intact."""
    with administer(ctx) as app:
        found = app.watches.sync.list()
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif not found:
        remark(f"no table is watched; watch one with {shown('watches', 'add', 'TABLE')}")
    else:
        rows = [
            (
                it.id,
                it.table_name,
                it.watched,
                f"{it.event}.*",
                it.condition or "",
                f"{it.created_by} {times.shown(it.created_at, now, absolute)}",
                "; ".join(it.drift),
            )
            for it in found
        ]
        table(("ID>", "TABLE", "ON", "EVENT", "WHEN", "BY", "DRIFT"), rows)
        if any(it.drift for it in found):
            remark(
                f"to repair a watch: {shown('watches', 'remove', 'ID')}, "
                f"then {shown('watches', 'add', 'TABLE')}"
            )


add_actions(commands, "watches", None)
