"""`rota schedules list` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import list_command
from rota.cli.program import DECLARED
from rota.cli.schedules import tables
from rota.cli.session import administer
from rota.cli.tenants.whose import whose
from rota.cli.terminal.flags import Json
from rota.cli.terminal.names import schedule_names
from rota.cli.terminal.output import print_json, remark
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.errors import TimingError

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.schedule_info import ScheduleInfo
    from rota.timing.preview import PreviewRow

commands = typer.Typer(name="schedules", help=DECLARED["schedules"], no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Schedule name, or TENANT/NAME.", autocompletion=schedule_names
    ),
]
Tenant = Annotated[
    str, typer.Option(metavar="NAME", help="Tenant of the schedule.", callback=whose)
]


def _list(ctx: typer.Context, app: App, found: list[ScheduleInfo], given: dict[str, Any]) -> None:
    if found:
        tables.print_list(found, app.clock.sync.now(), ctx.params["absolute"])
    else:
        none = f"no schedules; create one with {shown('schedules', 'create')}"
        remark("no schedules match" if {*given} - {"order"} else none)


commands.command("list")(watched(list_command("schedules", _list, limit=500)))


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
