"""Reads names such as `acme/sync`, as lists print what a tenant owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import typer

from rota.cli.session import administer
from rota.cli.terminal import values
from rota.model.tenant import split_name

if TYPE_CHECKING:
    from rota.app import App

# Whether a tenant, or no tenant, owns a record with this name: application, name, tenant.
IsThere = Callable[["App", str, str], bool]
Whose = Callable[[typer.Context, typer.CallbackParam, str | None], str | None]


def whole_name(tenant: str, name: str) -> str:
    return f"{tenant}/{name}" if tenant else name


def named(app: App, name: str, is_there: IsThere) -> tuple[str | None, str]:
    """Return the tenant that a name begins with, and the rest. A record without a tenant may have a
    slash in its name: then it is meant, unless both exist."""
    tenant, rest = split_name(name)
    if tenant is None or not is_there(app, name, ""):
        return tenant, rest
    if is_there(app, rest, tenant):
        values.refuse(
            "NAME",
            f'"{name}" has no tenant, and tenant "{tenant}" has "{rest}": pass --tenant "" or '
            f'--tenant "{tenant}" with the name',
        )
    return None, name


def new_name(ctx: typer.Context, name: str, tenant: str) -> tuple[str, str]:
    """Return the tenant and the name of a new record. With `--tenant` the name may not contain a
    slash, because other commands would read the part before it as the tenant."""
    owner, rest = split_name(name)
    if owner is None:
        return tenant, name
    if is_given(ctx, "tenant"):
        refuse_slash(name, "NAME", "pass it without --tenant, or a name without a slash")
    return owner, rest


def refuse_slash(name: str, option: str, advice: str) -> NoReturn:
    tenant, rest = split_name(name)
    values.refuse(option, f'"{name}" means "{rest}" of tenant "{tenant}"; {advice}')


def is_given(ctx: typer.Context, key: str) -> bool:
    source = ctx.get_parameter_source(key)
    return source is not None and source.name != "DEFAULT"


def _whose(is_there: IsThere, *keys: str) -> Whose:
    """Return the callback of `--tenant`: unless it is given, the tenant is taken from the name,
    which is parsed before it."""

    def callback(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
        if is_given(ctx, str(param.name)) or ctx.resilient_parsing:
            return value
        for key in keys:
            name = ctx.params.get(key)
            if isinstance(name, str) and split_name(name)[0] is not None:
                with administer(ctx) as app:
                    tenant, ctx.params[key] = named(app, name, is_there)
                return value if tenant is None else tenant
        return value

    return callback


def has_schedule(app: App, name: str, tenant: str = "") -> bool:
    from rota.errors import ScheduleNotFound

    try:
        app.schedules.sync.get(name, tenant=tenant)
    except ScheduleNotFound:
        return False
    return True


def has_limit(app: App, name: str, tenant: str = "") -> bool:
    from rota.errors import LimitNotFound

    try:
        app.limits.sync.get(name, tenant)
    except LimitNotFound:
        return False
    return True


whose = _whose(has_schedule, "name", "subject", "schedule")
whose_limit = _whose(has_limit, "name")
