"""`rota find`: search by name or id."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.session import administer
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, remark, table

_HEADERS = ("KIND", "NAME", "TENANT", "STATE", "OF", "FOUND")


def find(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Run ID or key, or part of a name.")],
    limit: Annotated[
        int, typer.Option(min=1, max=100, metavar="N", help="Maximum results of each kind.")
    ] = 8,
    json: Json = False,
) -> None:
    """Find runs, schedules, jobs, queues and workers. Runs are found by ID or key, the others by
    part of their name."""
    with administer(ctx) as app:
        found = app.find.sync.named(text, limit=limit)
    if json:
        print_json(found)
        return
    if found:
        table(
            _HEADERS,
            [(hit.kind, hit.name, hit.tenant, hit.state, hit.detail, hit.text) for hit in found],
        )
    else:
        remark(f"nothing found for {text!r}; `rota runs list --text` searches payloads and errors")
