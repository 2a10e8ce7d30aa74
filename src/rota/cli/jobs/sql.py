"""`rota jobs functions`: the functions of the database that a job can call."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.jobs import definitions  # noqa: F401  its commands come first
from rota.cli.jobs.jobs import commands
from rota.cli.session import administer
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import listed, print_json, remark, table


@commands.command("functions")
def functions(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in the name or schema.")
    ] = None,
    json: Json = False,
) -> None:
    """List the SQL functions and procedures that a job can call: they take no argument or one
    jsonb."""
    with administer(ctx) as app:
        found = app.jobs.sync.functions(text)
    if json:
        print_json(found)
    elif found:
        headers = ("FUNCTION", "ARGUMENTS", "KIND", "OWNER", "JOBS", "DESCRIPTION")
        rows = [
            (it.function_name, it.arguments, it.kind, it.owner, listed(it.jobs), it.description)
            for it in found
        ]
        table(headers, rows)
    else:
        remark("no functions that a job can call; it takes no argument or one jsonb")
