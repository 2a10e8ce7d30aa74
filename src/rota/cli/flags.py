"""Flags that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document, times in UTC.")]
Absolute = Annotated[
    bool, typer.Option("--absolute", help="Times in your zone instead of “5m ago”.")
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; kept in the audit.")]
