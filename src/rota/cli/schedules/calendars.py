"""`rota calendars`: days and windows without runs, shared by schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json, NameOption, Reason, Version
from rota.cli.terminal.names import calendar_names
from rota.cli.terminal.output import (
    as_pairs,
    facts,
    heading,
    json_block,
    listed,
    print_json,
    remark,
    table,
    tell,
)
from rota.cli.terminal.watch import watched

commands = typer.Typer(
    name="calendars",
    help="Calendars: days and windows when schedules do not run.",
    no_args_is_help=True,
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Calendar name.", autocompletion=calendar_names)
]
ORDERS = ("name", "changed")
DEFINITION_HELP = "JSON object with timezone, holidays, weekends and windows."


@commands.command("list")
@watched
def list_calendars(
    ctx: typer.Context,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "name",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List calendars and how many schedules use each."""
    with administer(ctx) as app:
        found = app.calendars.sync.list(order=paging.order(order, ORDERS))
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif not found:
        remark("no calendars")
    else:
        headers = (
            "NAME", "TIME ZONE", "HOLIDAYS>", "WEEKENDS", "WINDOWS>", "SCHEDULES>", "CHANGED",
            "DESCRIPTION",
        )  # fmt: skip
        table(
            headers,
            [
                (
                    calendar.name, *_summary(as_pairs(calendar.definition)), calendar.schedules,
                    times.shown(calendar.updated_at, now, absolute), calendar.description,
                )
                for calendar in found
            ],
        )  # fmt: skip


def _summary(definition: Mapping[str, Any]) -> tuple[object, int, str, int]:
    """Return zone, holidays, weekends and windows."""
    days = definition.get("weekends") or []
    weekends = listed(days) if isinstance(days, list) else "SAT, SUN"
    holidays, windows = (_count(definition.get(name)) for name in ("holidays", "windows"))
    return definition.get("timezone", "UTC"), holidays, weekends, windows


def _count(found: object) -> int:
    return len(found) if isinstance(found, list) else 0


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Show one calendar and its definition."""
    with administer(ctx) as app:
        found = app.calendars.sync.get(name)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    facts(
        [
            ("calendar", found.name),
            ("description", found.description),
            ("schedules", str(found.schedules)),
            ("changed", times.both(found.updated_at, now)),
            ("version", found.version),
        ]
    )
    heading("definition")
    json_block(found.definition)


@commands.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new calendar.")],
    definition: Annotated[str, typer.Option(metavar="JSON|@FILE|-", help=DEFINITION_HELP)],
    description: Annotated[str, typer.Option(metavar="TEXT", help="Description.")] = "",
    name_option: NameOption = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Create a calendar."""
    given = values.payload(definition, "--definition") or {}
    with administer(ctx) as app:
        app.calendars.by(actor()).sync.create(name, given, description, reason=reason)
    tell(json, f'calendar "{name}" created', calendar=name, action="created")


@commands.command("update")
def update(
    ctx: typer.Context,
    name: Name,
    definition: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE|-", help=DEFINITION_HELP)
    ] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="Description.")] = None,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Update a calendar for every schedule that uses it."""
    given = values.payload(definition, "--definition")
    if given is None and description is None:
        raise typer.BadParameter(values.NOTHING)
    with administer(ctx) as app:
        app.calendars.by(actor()).sync.update(
            name, given, description, version=version, reason=reason
        )
    tell(json, f'calendar "{name}" updated', calendar=name, action="updated")


@commands.command("delete")
def delete(
    ctx: typer.Context,
    name: Name,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Delete a calendar that no schedule uses."""
    with administer(ctx) as app:
        app.calendars.by(actor()).sync.delete(name, version=version, reason=reason)
    tell(json, f'calendar "{name}" deleted', calendar=name, action="deleted")
