"""Flags that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli import times


def _use_zone(name: str | None) -> str | None:
    """Taken at once, so that times among the other arguments are read by the same clocks."""
    if name is not None:
        times.use_zone(name, "--timezone")
    return name


Json = Annotated[bool, typer.Option("--json", help="One JSON document, times in UTC.")]
Absolute = Annotated[
    bool, typer.Option("--absolute", help="Times in your zone instead of “5m ago”.")
]
Zone = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="Times in this zone. Else ROTA_CLI_TIMEZONE, TZ, the machine's.",
        callback=_use_zone,
        is_eager=True,
    ),
]
Watch = Annotated[
    str | None,
    typer.Option("--watch", metavar="[SECONDS]", help="Again and again, until Ctrl-C."),
]
Oldest = Annotated[bool, typer.Option("--oldest", help="The oldest first.")]
Metadata = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY:VALUE", help="With this in its metadata; may be repeated."),
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; kept in the audit.")]
Version = Annotated[
    int | None, typer.Option(metavar="N", help="Only if it is still at this version.")
]
