"""`rota templates`: named timings for new schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.terminal.names import template_names
from rota.cli.terminal.output import remark, table
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.template import TemplateInfo

commands = typer.Typer(name="templates", help=DECLARED["templates"], no_args_is_help=True)


def _list(ctx: typer.Context, app: App, found: list[TemplateInfo], given: dict[str, Any]) -> None:
    if found:
        table(("NAME", "CRON", "DESCRIPTION"), [(it.name, it.cron, it.description) for it in found])
    else:
        remark(f"no templates; add one with {shown('templates', 'set')}")


commands.command("list")(watched(list_command("templates", _list)))
add_actions(commands, "templates", template_names)
