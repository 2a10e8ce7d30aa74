"""`acme/sync`, as lists print what a tenant owns, is a name that commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from rota.cli.session import administer
from rota.model.tenant import split_name

if TYPE_CHECKING:
    from rota.app import App

Whose = Callable[[typer.Context, typer.CallbackParam, str | None], str | None]
_KEYS = ("name", "subject", "schedule")


def whole_name(tenant: str, name: str) -> str:
    return f"{tenant}/{name}" if tenant else name


def named(app: App, name: str, is_there: Callable[[App, str], bool]) -> tuple[str | None, str]:
    """The tenant that a name begins with, and the rest. What no tenant owns may have a slash in its
    name: then that one is meant."""
    tenant, rest = split_name(name)
    return (None, name) if tenant is None or is_there(app, name) else (tenant, rest)


def _whose(is_there: Callable[[App, str], bool]) -> Whose:
    """For `--tenant`, which is read after the name that it belongs to, unless it is given."""

    def callback(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
        source = ctx.get_parameter_source(str(param.name))
        is_given = source is not None and source.name != "DEFAULT"
        if is_given or ctx.resilient_parsing:
            return value
        for key in _KEYS:
            name = ctx.params.get(key)
            if isinstance(name, str) and split_name(name)[0] is not None:
                with administer(ctx) as app:
                    tenant, ctx.params[key] = named(app, name, is_there)
                return value if tenant is None else tenant
        return value

    return callback


def has_schedule(app: App, name: str) -> bool:
    from rota.errors import ScheduleNotFound

    try:
        app.schedules.sync.get(name)
    except ScheduleNotFound:
        return False
    return True


def has_limit(app: App, name: str) -> bool:
    from rota.errors import LimitNotFound

    try:
        app.limits.sync.get(name)
    except LimitNotFound:
        return False
    return True


whose = _whose(has_schedule)
whose_limit = _whose(has_limit)
