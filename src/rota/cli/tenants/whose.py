"""`acme/sync`, as lists print the schedule of a tenant, is a name that commands take."""

from __future__ import annotations

import typer

from rota.cli.session import administer
from rota.errors import ScheduleNotFound
from rota.model.tenant import split_name


def whose(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """For `--tenant`, which is read after the name that it belongs to, unless it is given."""
    source = ctx.get_parameter_source(str(param.name))
    given = source is not None and source.name != "DEFAULT"
    for key in ("name", "subject"):
        name = ctx.params.get(key)
        if isinstance(name, str) and not given and not ctx.resilient_parsing:
            tenant, rest = split_name(name)
            if tenant is not None and not _is_nobodys(ctx, name):
                ctx.params[key] = rest
                return tenant
    return value


def _is_nobodys(ctx: typer.Context, name: str) -> bool:
    """A schedule that no tenant owns may have a slash in its name: then that one is meant."""
    with administer(ctx) as app:
        try:
            app.schedules.sync.get(name)
        except ScheduleNotFound:
            return False
    return True
