"""Flags that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli.terminal import times


def _use_zone(name: str | None) -> str | None:
    """Taken at once, so that times among the other arguments are read by the same clocks."""
    if name is not None:
        times.use_zone(name, "--timezone")
    return name


Json = Annotated[bool, typer.Option("--json", help="Output JSON, with times in UTC.")]
Absolute = Annotated[bool, typer.Option("--absolute", help="Absolute times instead of “5m ago”.")]
Zone = Annotated[
    str | None,
    typer.Option(
        "--timezone",
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
Oldest = Annotated[bool, typer.Option("--oldest", help="Oldest first.")]
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
