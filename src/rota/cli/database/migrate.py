"""`rota migrate`: bring the schema up to this release."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.session import closing, session
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, remark, say


def migrate(
    ctx: typer.Context,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show pending migrations without applying them.")
    ] = False,
    json: Json = False,
) -> None:
    """Migrate the database schema to this release. The previous release keeps running meanwhile."""
    from rota.app import App

    config = session(ctx).config()
    with closing(App(config=config)) as app:
        found = app.pending_migrations() if plan else app.migrate()
        role = app.shadowing_role()
    if role is not None:
        remark(f'hint: role "{role}" has the same name as the schema, so it finds Rota\'s tables')
        remark(f'first; use another role, or run: ALTER ROLE "{role}" SET search_path = public')
    if json:
        names = [str(one) for one in found]
        print_json({"schema": config.schema, "is_applied": not plan, "migrations": names})
        return
    for one in found:
        say(f"{'would apply' if plan else 'applied'} {one}")
    if not found:
        say(f'schema "{config.schema}" is up to date')
