"""`rota events`: facts that start the jobs that are bound to them."""

from __future__ import annotations

from typing import Annotated

import typer

from rota.cli import values
from rota.cli.flags import Json
from rota.cli.output import print_json, remark, say
from rota.cli.session import actor, administer

commands = typer.Typer(name="events", help="Events: facts that start jobs.", no_args_is_help=True)


@commands.callback()
def events() -> None:
    """A noun with one verb so far."""


@commands.command("emit")
def emit(
    ctx: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Such as order.paid.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON|@FILE|-", help="What the jobs are called with.")
    ] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Whose it is.")] = "",
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="One run for each job and key.")
    ] = None,
    key_keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION|forever", help="How long the key outlives the runs."),
    ] = None,
    json: Json = False,
) -> None:
    """Start every job that is bound to the event. The audit says who did."""
    given = values.payload(payload, "JSON")
    with administer(ctx) as app:
        runs = app.events.by(actor()).sync.emit(
            event, given, tenant=tenant, key=key, key_keep=values.key_keep(key_keep)
        )
    if json:
        print_json(
            [{"id": run.id, "job": run.job, "is_duplicate": run.is_duplicate} for run in runs]
        )
        return
    for run in runs:
        was_there = " was there already" if run.is_duplicate else " enqueued"
        say(f"run {run.id} of {run.job}{was_there}")
    if not runs:
        remark(f'no job is bound to "{event}"; `rota jobs list` shows events')
