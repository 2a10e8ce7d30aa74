"""`rota migrate`: bring the schema up to this release."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.session import chosen, closing, place_of, session
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
    with closing(App(config=chosen(config))) as app:
        found = app.pending_migrations() if plan else app.migrate()
        role = app.shadowing_role()
        owner = app.superuser_owner()
        place = place_of(config, app.embedded_home)
    if role is not None:
        remark(f'hint: role "{role}" has the same name as the schema, so it finds Rota\'s tables')
        remark(f'first; use another role, or run: ALTER ROLE "{role}" SET search_path = public')
    if owner is not None:
        remark(f'warning: the schema belongs to the superuser "{owner}": functions that')
        remark("workers of another role may call run as a superuser; migrate as a plain role")
    if json:
        names = [str(migration) for migration in found]
        facts = {"database": place, "schema": config.schema, "is_applied": not plan}
        print_json({**facts, "migrations": names})
        return
    say(place)
    for migration in found:
        say(f"{'would apply' if plan else 'applied'} {migration}")
    if not found:
        say(f'schema "{config.schema}" is up to date')
