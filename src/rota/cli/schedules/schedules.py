"""`rota schedules`: create, change, pause and resume schedules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.operations import add_actions
from rota.cli.schedules import flags
from rota.cli.schedules.lists import Name, Tenant, acting, commands
from rota.cli.session import administer
from rota.cli.tenants.whose import new_name, whole_name
from rota.cli.terminal import values
from rota.cli.terminal.flags import Json, NameOption, Reason, Reset, Version, to_reset
from rota.cli.terminal.names import job_names, schedule_names, template_names
from rota.cli.terminal.output import print_json, say

NewTenant = Annotated[str, typer.Option(metavar="NAME", help="Tenant of the schedule.")]


@commands.command("create")
@flags.takes(*flags.FLAGS)
def create(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new schedule, or TENANT/NAME.")
    ],
    job: Annotated[str, typer.Option(metavar="NAME", help="Job to run.", autocompletion=job_names)],
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Timing template; see `rota schedules templates list`.",
            autocompletion=template_names,
        ),
    ] = None,
    name_option: NameOption = None,
    reason: Reason = None,
    tenant: NewTenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Create a schedule. Pass exactly one of --cron, --every, --at, --init and --template."""
    arguments = flags.read(given)
    tenant, name = new_name(ctx, name, tenant)
    with administer(ctx) as app:
        made = acting(app).create(
            name, job, tenant=tenant, template=template, reason=reason, **arguments
        )
    if json:
        print_json(made)
    else:
        say(f'schedule "{whole_name(tenant, name)}" created: {made.timing}')


@commands.command("update")
@flags.takes(*flags.FLAGS)
def update(
    ctx: typer.Context,
    name: Name,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="New job.")] = None,
    reset: Reset = None,
    version: Version = None,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Update the given fields; `none` clears a value. The audit trail keeps old and new values."""
    arguments = flags.read(given)
    if not arguments and job is None and not reset:
        raise typer.BadParameter(values.NOTHING)
    with administer(ctx) as app:
        changed = acting(app).update(
            name, tenant=tenant, job=job, version=version, reason=reason, reset=to_reset(reset),
            **arguments,
        )  # fmt: skip
    if json:
        print_json(changed)
    else:
        say(f'schedule "{whole_name(tenant, name)}" updated: {changed.timing}')


add_actions(commands, "schedules", schedule_names)
