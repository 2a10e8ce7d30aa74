"""`rota doctor`: the state of the installation, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.reads import option, read_command
from rota.cli.terminal.output import say, table
from rota.cli.terminal.place import placed
from rota.operations.reports.doctor import DoctorCommands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.finding import Finding, Report

Every = Annotated[bool, typer.Option("--all", help="Also list checks that passed.")]
_WORDS = {"bad": "NEEDS ACTION", "warn": "WORTH A LOOK"}


def _show(ctx: typer.Context, app: App, found: Report) -> None:
    needs = "needs" if found.bad == 1 else "need"
    say(f"{found.bad} {needs} action, {found.warn} worth a look, {found.ok} OK")
    for finding in found.findings:
        if finding.verdict != "ok":
            _finding(finding)
    if ctx.params["every"]:
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
        say(f"        {placed(command)}")


doctor = read_command(
    "doctor",
    DoctorCommands.get,
    _show,
    options=(option("every", Every, False),),
    code=lambda found: 1 if found.bad else 0,
    note="Exits with 1 if anything needs action.",
)
