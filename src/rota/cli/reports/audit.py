"""`rota audit`: who did what, when and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.names import tenant_names
from rota.cli.terminal.output import compact, facts, heading, print_json, remark, table
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from rota.model.audit import AuditEntry, Change

commands = typer.Typer(
    name="audit", help="Audit trail: who did what, when and why.", no_args_is_help=True
)

# A created record has all its columns as changes: this many are enough to identify it.
_MOST_CHANGES = 4
HEADERS = ("ID>", "WHEN", "ACTOR", "ACTION", "OBJECT", "WHY")
WITH_TENANT = (*HEADERS[:4], "TENANT", *HEADERS[4:])


@commands.command("list")
@watched
def list_entries(
    ctx: typer.Context,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who did it, e.g. cli:ada.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="What was done, e.g. run.cancelled.")
    ] = None,
    noun: Annotated[
        str | None,
        typer.Option(metavar="NOUN", help="Type of object: run, job, schedule, queue, worker, …"),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(metavar="NAME|ID", help="Name or ID of the object; requires --noun."),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Entries of this tenant.", autocompletion=tenant_names),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Entries since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Entries before this time.")
    ] = None,
    order: Annotated[str, paging.sorted_by(*paging.NEWEST)] = "newest",
    limit: paging.Limit = 50,
    after: paging.AfterId = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List audit entries, newest first."""
    if subject is not None and noun is None:
        values.refuse("--subject", "requires --noun: 7 may be a run or a worker")
    wanted: Any = {
        "actor": actor,
        "action": action,
        "object_type": noun,
        "object_id": subject,
        "tenant": tenant,
        "since": values.since(since, "--since"),
        "until": values.since(until, "--until"),
        "order": paging.order(order, paging.NEWEST),
        "cursor": paging.place(after),
        "limit": limit,
    }
    with administer(ctx) as app:
        page = app.audit.sync.page(**wanted)
        now = app.clock.sync.now()
    found = [*page.items]
    if json:
        print_json(found)
    elif not found:
        remark("no entries match")
    else:
        _print_list(found, now, absolute)
    paging.more(len(found), page.cursor)


def _print_list(found: list[AuditEntry], now: datetime, is_absolute: bool) -> None:
    # Show the column only if there are tenants.
    is_shared = any(entry.tenant for entry in found)
    rows = [
        (
            entry.id, times.shown(entry.at, now, is_absolute), entry.actor, entry.action,
            *([entry.tenant] if is_shared else []), _object(entry), _why(entry),
        )
        for entry in found
    ]  # fmt: skip
    table(WITH_TENANT if is_shared else HEADERS, rows)


def _object(entry: AuditEntry) -> str:
    return f"{entry.object_type} {entry.object_id}"


def _why(entry: AuditEntry) -> str:
    """Return the reason; without one, the changes. `show` prints all previous values."""
    if entry.reason is not None or entry.after is None:
        return entry.reason or ""
    changes = [_change(change) for change in entry.changes if not change.is_same]
    more = [f"and {len(changes) - _MOST_CHANGES} more"] if len(changes) > _MOST_CHANGES else []
    return ", ".join([*changes[:_MOST_CHANGES], *more])


def _change(it: Change) -> str:
    if it.before is None:
        return f"{it.field} {compact(it.after)}"
    return f"{it.field} {compact(it.before)} → {compact(it.after)}"


@commands.command("show")
@watched
def show(
    ctx: typer.Context,
    entry_id: Annotated[int, typer.Argument(metavar="ID", help="Entry ID.")],
    json: Json = False,
) -> None:
    """Show one audit entry with the values before and after the change."""
    with administer(ctx) as app:
        found = app.audit.sync.get(entry_id)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    facts(
        [
            ("entry", found.id),
            ("action", found.action),
            ("object", _object(found)),
            ("tenant", found.tenant),
            ("actor", found.actor),
            ("database login", found.db_user),
            ("when", times.both(found.at, now)),
            ("why", found.reason),
        ]
    )
    if found.changes:
        heading("changes")
        rows = [(it.field, _value(it.before), _value(it.after)) for it in found.changes]
        table(("FIELD", "BEFORE", "AFTER"), rows)


def _value(value: Any) -> str:
    return "" if value is None else compact(value)
