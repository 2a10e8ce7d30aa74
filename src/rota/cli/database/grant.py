"""`rota grant`: the privileges of workers, for a role that owns nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.session import administer
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, say


def grant(
    ctx: typer.Context,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Existing database role.")],
    json: Json = False,
) -> None:
    """Grant a role the privileges that Rota needs. They are those of workers, the API and commands.
    Run it as the role that migrates."""
    with administer(ctx) as app:
        app.grant(role)
    if json:
        print_json({"role": role, "is_granted": True})
        return
    say(f'role "{role}" may run workers, the API and commands')
