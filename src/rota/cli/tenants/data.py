"""`rota tenants export` and `delete`: all data of a tenant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import actor, administer
from rota.cli.tenants.tenants import Name, commands
from rota.cli.terminal import values
from rota.cli.terminal.flags import Json, Reason
from rota.cli.terminal.output import print_json, remark, say
from rota.cli.terminal.progress import progress
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.model.tenant import TenantAmount

__all__ = ["commands"]


@commands.command("export")
def export(
    ctx: typer.Context,
    name: Name,
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FILE.tar.gz", help="Archive file to write.", writable=True),
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: Json = False,
) -> None:
    """Export all data of a tenant as one archive. It has a JSON Lines file for each table."""
    if to.exists() and not force:
        values.refuse("--to", f"{to} already exists; --force overwrites it")
    if not to.absolute().parent.is_dir():
        values.refuse("--to", f"there is no directory {to.absolute().parent}")
    with administer(ctx) as app, progress("exporting rows") as bar:
        made = app.tenants.by(actor()).sync.export(name, to, on_progress=bar.advance)
    if json:
        print_json(made)
        return
    say(f'tenant "{name}" exported to {to}: {plural(sum(made.rows.values()), "row")}')


@commands.command("delete")
def delete(
    ctx: typer.Context,
    name: Name,
    cancel_running: Annotated[
        bool,
        typer.Option(
            "--cancel-running", help="First cancel running attempts and wait for them to stop."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Delete all data of a tenant. Operator actions stay in the audit trail."""
    with administer(ctx) as app:
        face = app.tenants.by(actor()).sync
        if not yes:
            _confirm(name, face.amount(name))
        with progress("deleting rows") as bar:
            done = face.delete(name, reason, cancel_running=cancel_running, on_progress=bar.advance)
    if json:
        print_json(done)
    else:
        say(f'tenant "{name}" deleted: {plural(done.rows, "row")}')


def _confirm(name: str, found: TenantAmount) -> None:
    """Ask with the amount of data: it may be more than expected."""
    amount = (
        f'tenant "{name}" has {plural(found.schedules, "schedule")}, '
        f"{plural(found.open_runs + found.running, 'open run')} ({found.running:,} running), "
        f"{plural(found.ended_runs, 'ended run')} and {plural(found.keys, 'key')}"
    )
    if not sys.stdin.isatty():
        values.refuse("--yes", f"required without a terminal: {amount}")
    remark(amount)
    typer.confirm("Delete all of it, including attempts and log lines?", abort=True, err=True)
