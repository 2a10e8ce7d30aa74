"""`rota why`: the reasons in order, and the command that would change each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rota.cli.reads import read_command
from rota.cli.reports.reasons import print_reasons
from rota.cli.tenants.whose import has_schedule, named
from rota.cli.terminal.output import remark, say
from rota.cli.terminal.watch import watched
from rota.operations.reports.why import WhyCommands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.why import Why


def _find_tenant(app: App, given: dict[str, Any]) -> None:
    """Lists print a schedule of a tenant as `TENANT/NAME`."""
    if "tenant" not in given:
        tenant, given["subject"] = named(app, given["subject"], has_schedule)
        given["tenant"] = tenant or ""


def _show(ctx: typer.Context, app: App, found: Why) -> None:
    say(f"{found.kind} {found.name}")
    print_reasons(found)
    for other in found.also:
        remark(f"a {other} has the same name; to ask about it: --kind {other}")


why = watched(read_command("why", WhyCommands.ask, _show, options=(), complete=_find_tenant))
