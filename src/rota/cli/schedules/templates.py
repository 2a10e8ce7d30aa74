"""`rota schedules templates`: named timings for new schedules."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.schedules.lists import acting
from rota.cli.session import administer
from rota.cli.terminal.flags import Json, Reason, Version
from rota.cli.terminal.names import template_names
from rota.cli.terminal.output import print_json, remark, table, tell
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched

commands = typer.Typer(
    name="templates",
    help="Timing templates for `rota schedules create --template NAME`.",
    no_args_is_help=True,
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Template name.", autocompletion=template_names)
]


@commands.command("list")
@watched
def list_templates(ctx: typer.Context, json: Json = False) -> None:
    """List timing templates by name."""
    with administer(ctx) as app:
        found = app.schedules.sync.templates()
    if json:
        print_json(found)
    elif found:
        table(("NAME", "CRON", "DESCRIPTION"), [(it.name, it.cron, it.description) for it in found])
    else:
        remark(f"no templates; add one with {shown('schedules', 'templates', 'add')}")


@commands.command("add")
def add(
    ctx: typer.Context,
    name: Name,
    cron: Annotated[
        str,
        typer.Option(
            metavar="EXPRESSION", help="Cron expression: five fields, or @hourly, @daily, …"
        ),
    ],
    description: Annotated[str, typer.Option(metavar="TEXT", help="Description.")] = "",
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Add a timing template, or replace the one with that name."""
    with administer(ctx) as app:
        acting(app).add_template(name, cron, description, version=version, reason=reason)
    tell(json, f'template "{name}" added', template=name, action="added")


@commands.command("remove")
def remove(
    ctx: typer.Context,
    name: Name,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Remove a timing template. Schedules created from it keep their timing."""
    with administer(ctx) as app:
        acting(app).remove_template(name, version=version, reason=reason)
    tell(json, f'template "{name}" removed', template=name, action="removed")
