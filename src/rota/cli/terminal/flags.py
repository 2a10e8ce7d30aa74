"""Flags that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.terminal import times

# Not --timezone, which belongs to schedules, as in Python, SQL and the API.
DISPLAY_ZONE = "--display-timezone"


def _use_zone(name: str | None) -> str | None:
    """Set the zone at once, so that times in other arguments are read in it."""
    if name is not None:
        times.use_zone(name, DISPLAY_ZONE)
    return name


Json = Annotated[bool, typer.Option("--json", help="Output JSON, with times in UTC.")]
Absolute = Annotated[bool, typer.Option("--absolute", help="Absolute times instead of “5m ago”.")]
Zone = Annotated[
    str | None,
    typer.Option(
        DISPLAY_ZONE,
        metavar="ZONE",
        help="Time zone for display. Default: ROTA_CLI_TIMEZONE, TZ or the system's.",
        callback=_use_zone,
        is_eager=True,
    ),
]
Watch = Annotated[
    str | None,
    typer.Option(
        "--watch", metavar="[SECONDS]", help="Refresh until Ctrl-C. Default interval: 2s."
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY:VALUE", help="Metadata key and value; repeatable."),
]
Reason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Reason, recorded in the audit trail.")
]
Version = Annotated[
    int | None, typer.Option(metavar="N", help="Fail unless this is the current version.")
]


def _as_argument(ctx: typer.Context, name: str | None) -> None:
    if name is not None:
        ctx.default_map = {**(ctx.default_map or {}), "name": name, "targets": [name]}


# The name of a new record is an argument; as an option it is accepted too, but not shown.
NameOption = Annotated[
    str | None,
    typer.Option("--name", hidden=True, is_eager=True, callback=_as_argument, expose_value=False),
]
