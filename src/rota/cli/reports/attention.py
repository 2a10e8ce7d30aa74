"""`rota attention`: what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rota.cli.reads import read_command
from rota.cli.terminal import times
from rota.cli.terminal.output import remark, say
from rota.cli.terminal.place import placed
from rota.cli.terminal.watch import watched
from rota.operations.reports.attention import AttentionCommands

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.attention import Attention, AttentionItem


def headline(found: Attention) -> str:
    if not found.total:
        return "nothing needs attention"
    return f"{found.total} thing{' needs' if found.total == 1 else 's need'} attention"


def _show(ctx: typer.Context, app: App, found: Attention) -> None:
    say(headline(found))
    for need in found.needs:
        _show_need(need, found.at, ctx.params["absolute"])
    if found.total > len(found.needs):
        remark(f"{found.total - len(found.needs):,} more; raise --limit to see them")


def _show_need(need: AttentionItem, now: datetime, is_absolute: bool) -> None:
    since = times.shown(need.since, now, is_absolute)
    say("")
    say(f"{need.sentence}{f' (since {since})' if since else ''}")
    for line in (need.reason, placed(need.command or "")):
        if line:
            say(f"    {line}")


attention = watched(read_command("attention", AttentionCommands.get, _show))
