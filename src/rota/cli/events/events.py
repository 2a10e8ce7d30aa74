"""`rota events`: emit, list and show events."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.names import job_names, tenant_names
from rota.cli.terminal.output import (
    compact,
    facts,
    heading,
    json_block,
    print_json,
    remark,
    say,
    table,
)
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.model.event import Outcome, where_from
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.model.event import EventInfo

commands = typer.Typer(
    name="events", help="Events: start jobs when something happens.", no_args_is_help=True
)

HEADERS = ("ID>", "WHEN", "EVENT", "FROM", "STARTED")
WITH_TENANT = ("ID>", "WHEN", "TENANT", *HEADERS[2:])


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
        was_there = " already exists" if run.is_duplicate else " enqueued"
        say(f"run {run.id} of {run.job}{was_there}")
    if not runs:
        remark(
            f"event {runs.event_id} is stored, but started nothing;"
            f" {shown('events', 'show', str(runs.event_id))} shows why"
        )


@commands.command("list")
@watched
def list_events(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="EVENT", help="Event name or pattern, e.g. order.*")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Events of this tenant.", autocompletion=tenant_names),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB", help="Events that concerned this job.", autocompletion=job_names
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Events with this key.")] = None,
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
    order: Annotated[str, paging.sorted_by(*paging.NEWEST)] = "newest",
    limit: paging.Limit = 50,
    after: paging.AfterId = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List received events, newest first, and what each started."""
    wanted: Any = {
        "name": name, "tenant": tenant, "job": job, "key": key, "text": text,
        "outcome": values.choice(outcome, get_args(Outcome), "--outcome"),
        "since": values.since(since, "--since"), "until": values.since(until, "--until"),
        "order": paging.order(order, paging.NEWEST), "cursor": paging.place(after), "limit": limit,
    }  # fmt: skip
    with administer(ctx) as app:
        page = app.events.sync.page(**wanted)
        now = app.clock.sync.now()
    found = [*page.items]
    if json:
        print_json(found)
    elif not found:
        remark("no events match")
    else:
        _print_list(found, now, absolute)
    paging.more(len(found), page.cursor)


def _print_list(found: list[EventInfo], now: datetime, is_absolute: bool) -> None:
    # Show the column only if there are tenants.
    is_shared = any(event.tenant for event in found)
    rows = [
        (
            one.id, times.shown(one.at, now, is_absolute), *([one.tenant] if is_shared else []),
            one.name, where_from(one.source), started(one),
        )
        for one in found
    ]  # fmt: skip
    table(WITH_TENANT if is_shared else HEADERS, rows)


def started(one: EventInfo) -> str:
    """Return what the event started, in a few words."""
    if one.duplicate_of is not None:
        return f"nothing: event {one.duplicate_of} came first"
    if one.outcome == "unbound":
        return "nothing: no job was bound to it"
    if one.outcome == "filtered":
        return f"nothing: the filters of {plural(len(one.told), 'job')} did not match"
    return ", ".join(delivery.brief for delivery in one.told if delivery.run is not None)


@commands.command("show")
@watched
def show(
    ctx: typer.Context,
    event_id: Annotated[int, typer.Argument(metavar="ID", help="Event ID.")],
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
        table(("JOB", "RUN>", "RESULT"), [(it.job, it.run or "", it.word) for it in found.told])
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
    job: Annotated[
        str | None,
        typer.Option(metavar="JOB", help="Bindings of this job.", autocompletion=job_names),
    ] = None,
    json: Json = False,
) -> None:
    """List event bindings: jobs, event names or patterns, and filters."""
    with administer(ctx) as app:
        found = app.events.sync.bindings(event, job)
    if json:
        print_json(found)
    elif not found:
        remark("no bindings match" if event or job else "no job is bound to an event")
    else:
        rows = [
            (binding.pattern, binding.job, compact(binding.filter) if binding.filter else "",
             "" if binding.is_enabled else "job disabled: its runs wait")
            for binding in found
        ]  # fmt: skip
        table(("EVENT", "JOB", "FILTER", "NOTE"), rows)
