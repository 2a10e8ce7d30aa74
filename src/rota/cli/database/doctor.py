"""`rota doctor`: the state of the installation, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import administer
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import print_json, say, table
from rota.cli.terminal.place import whole_command

if TYPE_CHECKING:
    from rota.model.finding import Finding, Report

_WORDS = {"bad": "NEEDS ACTION", "warn": "WORTH A LOOK"}


def doctor(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also list checks that passed.")] = False,
    json: Json = False,
) -> None:
    """Check the installation. Covers the server, schema, workers, scheduler, transactions, tables
    and connections. Exits with 1 if anything needs action."""
    with administer(ctx) as app:
        found = app.doctor.sync.get()
    if json:
        print_json(found)
    else:
        _show(found, every)
    if found.bad:
        raise typer.Exit(1)


def _show(found: Report, with_fine: bool) -> None:
    needs = "needs" if found.bad == 1 else "need"
    say(f"{found.bad} {needs} action, {found.warn} worth a look, {found.ok} OK")
    for finding in found.findings:
        if finding.verdict != "ok":
            _finding(finding)
    if with_fine:
        say("")
        fine = [finding for finding in found.findings if finding.verdict == "ok"]
        table(("OK", "FIGURE", "LIMIT"), [(it.title, it.figure, it.limit or "") for it in fine])


def _finding(one: Finding) -> None:
    limit = f" (limit {one.limit})" if one.limit else ""
    say("")
    say(f"{_WORDS[one.verdict]}: {one.title}: {one.figure}{limit}")
    if one.detail:
        say(f"    {one.detail}")
    if one.advice:
        say(f"    Do: {one.advice}")
    for command in one.commands:
        say(f"        {whole_command(command)}")
