"""`rota find`: search by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rota.cli.reads import read_command
from rota.cli.terminal.output import remark, table
from rota.cli.terminal.place import shown
from rota.operations.reports.find import FindCommands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.search_result import SearchResult

_HEADERS = ("KIND", "NAME", "TENANT", "STATE", "OF", "FOUND")


def _show(ctx: typer.Context, app: App, found: list[SearchResult]) -> None:
    if found:
        table(
            _HEADERS,
            [(hit.kind, hit.name, hit.tenant, hit.state, hit.detail, hit.text) for hit in found],
        )
    else:
        text = ctx.params["text"]
        remark(
            f"nothing found for {text!r}; {shown('runs', 'list', '--text', text)} "
            "searches payloads and errors"
        )


find = read_command("find", FindCommands.named, _show, options=())
