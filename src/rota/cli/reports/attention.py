"""`rota attention`: what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.output import print_json, remark, say
from rota.cli.terminal.place import whole_command
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from datetime import datetime

    from rota.model.attention import Attention, Need


@watched
def attention(
    ctx: typer.Context,
    limit: Annotated[
        int, typer.Option(min=1, max=100, metavar="N", help="Maximum number of items of each kind.")
    ] = 5,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List what needs attention. Each item says since when, why, and which command to run."""
    with administer(ctx) as app:
        found = app.attention.sync.get(limit=limit)
    if json:
        print_json(found)
        return
    say(headline(found))
    for need in found.needs:
        _show(need, found.at, absolute)
    if found.total > len(found.needs):
        remark(f"{found.total - len(found.needs):,} more; raise --limit to see them")


def headline(found: Attention) -> str:
    if not found.total:
        return "nothing needs attention"
    return f"{found.total} thing{' needs' if found.total == 1 else 's need'} attention"


def _show(need: Need, now: datetime, is_absolute: bool) -> None:
    since = times.shown(need.since, now, is_absolute)
    say("")
    say(f"{need.sentence}{f' (since {since})' if since else ''}")
    for line in (need.reason, whole_command(need.command or "")):
        if line:
            say(f"    {line}")
