"""`rota calendars`: days and windows without runs, shared by schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
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
)
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.calendar import CalendarInfo

commands = typer.Typer(name="calendars", help=DECLARED["calendars"], no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Calendar name.", autocompletion=calendar_names)
]


def _list(ctx: typer.Context, app: App, found: list[CalendarInfo], given: dict[str, Any]) -> None:
    if not found:
        remark("no calendars")
        return
    now, absolute = app.clock.sync.now(), ctx.params["absolute"]
    headers = (
        "NAME",
        "TIME ZONE",
        "HOLIDAYS>",
        "WEEKENDS",
        "WINDOWS>",
        "SCHEDULES>",
        "CHANGED",
        "DESCRIPTION",
    )
    rows = [
        (
            calendar.name,
            *_summary(as_pairs(calendar.definition)),
            calendar.schedules,
            times.shown(calendar.updated_at, now, absolute),
            calendar.description,
        )
        for calendar in found
    ]
    table(headers, rows)


commands.command("list")(watched(list_command("calendars", _list)))


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


add_actions(commands, "calendars", calendar_names)
