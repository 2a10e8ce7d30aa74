"""`rota schedules list` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.program import DECLARED
from rota.cli.schedules import tables
from rota.cli.session import actor, administer
from rota.cli.tenants.whose import whose
from rota.cli.terminal import paging, values
from rota.cli.terminal.flags import Absolute, Json, Metadata
from rota.cli.terminal.names import (
    calendar_names,
    job_names,
    one_of,
    queue_names,
    schedule_names,
    tenant_names,
)
from rota.cli.terminal.output import print_json, remark
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.errors import TimingError

if TYPE_CHECKING:
    from rota.app import App
    from rota.operations.schedules.schedules import SyncSchedules
    from rota.timing.preview import PreviewRow

commands = typer.Typer(name="schedules", help=DECLARED["schedules"], no_args_is_help=True)

ORDERS = ("name", "next", "last", "newest", "changed")
STATES = ("active", "pending", "paused", "disabled", "finished", "parked")
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Schedule name, or TENANT/NAME.", autocompletion=schedule_names
    ),
]
Tenant = Annotated[
    str, typer.Option(metavar="NAME", help="Tenant of the schedule.", callback=whose)
]


def acting(app: App) -> SyncSchedules:
    return app.schedules.by(actor()).sync


@commands.command("list")
@watched
def list_schedules(
    ctx: typer.Context,
    job: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Schedules of this job.", autocompletion=job_names),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Schedules whose runs go to this queue.",
            autocompletion=queue_names,
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Schedules with this tag.")] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Schedules of this tenant.", autocompletion=tenant_names),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help=f"State: {', '.join(STATES)}.", autocompletion=one_of(STATES)
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text in the name, job, description or time zone."),
    ] = None,
    calendar: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Schedules with this calendar.", autocompletion=calendar_names
        ),
    ] = None,
    metadata: Metadata = None,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "name",
    attention: Annotated[
        bool,
        typer.Option(
            "--attention", help="Schedules that are late, missed, parked, or paused by Rota."
        ),
    ] = False,
    system: Annotated[bool, typer.Option("--system", help="Include Rota's own schedules.")] = False,
    limit: paging.LongLimit = 500,
    after: paging.After = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List schedules with timing, next run and last result."""
    wanted: Any = {
        "job": job,
        "queue": queue,
        "attention": attention or None,
        "tag": tag,
        "tenant": tenant,
        "state": values.choice(state, STATES, "--state"),
        "text": text,
        "calendar": calendar,
        "metadata": values.pairs(metadata, "--metadata"),
        "order": paging.order(order, ORDERS),
    }
    cursor = paging.read(f"schedules {order}", after)
    with administer(ctx) as app:
        page = app.schedules.sync.page(**wanted, system=system, cursor=cursor, limit=limit)
        now = app.clock.sync.now()
    found = [*page.items]
    if json:
        print_json(found)
    elif not found:
        is_narrowed = any(value is not None for key, value in wanted.items() if key != "order")
        none = f"no schedules; create one with {shown('schedules', 'create')}"
        remark("no schedules match" if is_narrowed else none)
    else:
        tables.print_list(found, now, absolute)
    paging.more(len(found), page.cursor, f"schedules {order}")


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, tenant: Tenant = "", json: Json = False) -> None:
    """Show one schedule: timing, policies, times and results."""
    with administer(ctx) as app:
        found = app.schedules.sync.get(name, tenant=tenant)
        now = app.clock.sync.now()
        if json:
            print_json(found)
            return
        has_times = found.state in ("active", "pending") and found.init is None
        coming, problem = _coming(app, name, tenant) if has_times else ([], None)
        past = app.schedules.sync.history(name, tenant=tenant, limit=5)
        overrides = app.schedules.sync.overrides(name, tenant=tenant)
    tables.print_details(found, overrides, now)
    tables.print_short_times(coming, past, now)
    if problem is not None:
        remark(f"cannot compute its next times: {problem}")


def _coming(app: App, name: str, tenant: str) -> tuple[list[PreviewRow], str | None]:
    """Return the coming times. A timing that cannot be computed does not prevent the rest of the
    output."""
    try:
        return app.schedules.sync.preview(name, tenant=tenant, count=3), None
    except TimingError as error:
        return [], str(error)
