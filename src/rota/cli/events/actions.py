"""`rota events replay` and `refusals`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.events.events import commands
from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json, Reason
from rota.cli.terminal.names import job_names, tenant_names
from rota.cli.terminal.output import print_json, remark, say, table
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.model.table_watch import Replayed


@commands.command("replay")
def replay(
    ctx: typer.Context,
    job: Annotated[
        str,
        typer.Option(metavar="JOB", help="Job to deliver the events to.", autocompletion=job_names),
    ],
    event: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Event name or pattern, e.g. order.*")
    ] = None,
    event_id: Annotated[
        list[int] | None,
        typer.Option("--id", metavar="ID", help="ID of a single event; repeatable."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Events since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Events before this time.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Events of this tenant.", autocompletion=tenant_names),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Include events already delivered to the job.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the events without delivering them.")
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Deliver stored events to a job that was bound to them later."""
    if (event is None) == (not event_id):
        values.refuse("--event", "pass either --event or --id")
    wanted: Any = {
        "event": event, "ids": event_id or None, "tenant": tenant, "again": again,
        "since": values.since(since, "--since"), "until": values.since(until, "--until"),
        "dry_run": dry_run, "reason": reason,
    }  # fmt: skip
    with administer(ctx) as app:
        done = app.events.by(actor()).sync.replay(job, **wanted)
    if json:
        print_json(done)
    else:
        say(_told(done, job))


def _told(done: Replayed, job: str) -> str:
    verb = "would start" if done.is_dry_run else "started"
    left = [
        f"{count:,} {word}"
        for count, word in (
            (done.joined, "joined the run of another event"),
            (done.delivered_before, "already delivered"),
            (done.filtered, "filtered out"),
            (done.held, "locked by another transaction"),
        )
        if count
    ]
    rest = f"; {', '.join(left)}" if left else ""
    return f"{plural(done.events, 'event')}: {verb} {plural(done.started, 'run')} of {job}{rest}"


@commands.command("refusals")
@watched
def refusals(
    ctx: typer.Context,
    hook: Annotated[str | None, typer.Argument(metavar="HOOK", help="Only this webhook.")] = None,
    limit: paging.Limit = 50,
    after: paging.After = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List requests that webhooks refused, by minute."""
    cursor = paging.read("refusals", after)
    with administer(ctx) as app:
        page = app.events.sync.refusals(hook, cursor=cursor, limit=limit)
        now = app.clock.sync.now()
    found = [*page.items]
    if json:
        print_json(found)
    elif not found:
        remark("no refused requests")
    else:
        rows = [
            (times.shown(it.last_at, now, absolute), it.hook, it.reason, it.address, it.refusals)
            for it in found
        ]
        table(("WHEN", "HOOK", "WHY", "FROM", "TIMES>"), rows)
    paging.more(len(found), page.cursor, "refusals")
