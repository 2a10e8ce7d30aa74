"""`rota events`: facts that start the jobs that are bound to them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Absolute, Json, Oldest
from rota.cli.terminal.names import job_names
from rota.cli.terminal.output import (
    amount,
    compact,
    facts,
    heading,
    json_block,
    print_json,
    remark,
    say,
    table,
)
from rota.cli.terminal.watch import watched
from rota.model.event import Outcome, where_from

if TYPE_CHECKING:
    from rota.model.event import EventInfo

commands = typer.Typer(
    name="events", help="Events: start jobs when something happens.", no_args_is_help=True
)

HEADERS = ("ID>", "WHEN", "EVENT", "FROM", "STARTED")


@commands.command("emit")
def emit(
    ctx: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="Event name, e.g. order.paid.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON|@FILE|-", help="Payload passed to the jobs.")
    ] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="Tenant of the event.")] = "",
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Idempotency key: one run per job and key.")
    ] = None,
    key_keep: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|forever", help="How long the key stays reserved after the runs end."
        ),
    ] = None,
    key_period: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Accept only one event per key in this period instead."
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE", help="Metadata of the event and its runs."),
    ] = None,
    json: Json = False,
) -> None:
    """Emit an event, starting every job bound to it. Recorded in the audit trail."""
    given = values.payload(payload, "JSON")
    with administer(ctx) as app:
        runs = app.events.by(actor()).sync.emit(
            event, given, tenant=tenant, key=key, key_keep=values.key_keep(key_keep),
            key_period=values.seconds(key_period, "--key-period"),
            metadata=values.payload(metadata, "--metadata"),
        )  # fmt: skip
    if json:
        print_json(
            [{"id": run.id, "job": run.job, "is_duplicate": run.is_duplicate} for run in runs]
        )
        return
    for run in runs:
        was_there = " was there already" if run.is_duplicate else " enqueued"
        say(f"run {run.id} of {run.job}{was_there}")
    if not runs:
        remark(
            f"event {runs.event_id} is kept, but started nothing;"
            f" `rota events show {runs.event_id}` says why"
        )


@commands.command("list")
@watched
def list_events(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="EVENT", help="Event name or pattern, e.g. order.*")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB", help="Events that concerned this job.", autocompletion=job_names
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY")] = None,
    outcome: Annotated[
        str | None,
        typer.Option(metavar="OUTCOME", help=f"Outcome: {', '.join(get_args(Outcome))}."),
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Text in the payload.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Events since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Events before this time.")
    ] = None,
    oldest: Oldest = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Start after this event (next page).")
    ] = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List received events, newest first, and what each started."""
    wanted: Any = {
        "name": name, "tenant": tenant, "job": job, "key": key, "text": text,
        "outcome": values.choice(outcome, get_args(Outcome), "--outcome"),
        "since": values.since(since, "--since"), "until": values.since(until, "--until"),
        "order": "oldest" if oldest else "newest", "before_id": before, "limit": limit,
    }  # fmt: skip
    with administer(ctx) as app:
        found = app.events.sync.list(**wanted)
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif not found:
        remark("no events match")
    else:
        table(HEADERS, [_row(one, now, absolute) for one in found])
        if len(found) == limit:
            remark(f"{limit} shown; for more add --before {found[-1].id}")


def _row(one: EventInfo, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    when = times.shown(one.at, now, is_absolute)
    name = f"{one.name} of {one.tenant}" if one.tenant else one.name
    return one.id, when, name, where_from(one.source), started(one)


def started(one: EventInfo) -> str:
    """In a few words."""
    if one.duplicate_of is not None:
        return f"nothing: event {one.duplicate_of} came first"
    if one.outcome == "unbound":
        return "nothing: no job was bound to it"
    if one.outcome == "filtered":
        return f"nothing: the filters of {amount(len(one.told), 'job')} did not fit"
    return ", ".join(it.brief for it in one.told if it.run is not None)


@commands.command("show")
@watched
def show(
    ctx: typer.Context,
    event_id: Annotated[int, typer.Argument(metavar="ID")],
    json: Json = False,
) -> None:
    """Show one event: its payload, its source and what it started."""
    with administer(ctx) as app:
        found = app.events.sync.get(event_id)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    facts(
        [
            ("event", found.id),
            ("name", found.name),
            ("tenant", found.tenant),
            ("when", times.both(found.at, now)),
            ("key", found.key),
            ("actor", found.actor),
            ("database role", found.role),
            ("from", where_from(found.source)),
            ("source", compact(found.source) if found.source else ""),
            ("outcome", started(found)),
        ]
    )
    if found.told:
        heading("jobs")
        table(("JOB", "RUN>", ""), [(it.job, it.run or "", it.word) for it in found.told])
    heading("payload")
    json_block(found.payload)


@commands.command("bindings")
@watched
def bindings(
    ctx: typer.Context,
    event: Annotated[
        str | None,
        typer.Argument(metavar="EVENT", help="Bindings that an event of this name matches."),
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", autocompletion=job_names)] = None,
    json: Json = False,
) -> None:
    """List event bindings: jobs, event names or patterns, and filters."""
    with administer(ctx) as app:
        found = app.events.sync.bindings(event, job)
    if json:
        print_json(found)
    elif not found:
        remark("no job is bound to it" if event else "no job is bound to an event")
    else:
        rows = [
            (it.pattern, it.job, compact(it.filter) if it.filter else "",
             "" if it.is_enabled else "disabled: its runs wait")
            for it in found
        ]  # fmt: skip
        table(("EVENT", "JOB", "FILTER", ""), rows)
