"""`rota schedules`: the edits and manual runs of a schedule, and the declared actions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import typer

from rota.cli.operations import add_actions
from rota.cli.schedules import tables
from rota.cli.schedules import times as schedule_times  # noqa: F401  its commands come first
from rota.cli.schedules.lists import Name, Tenant, commands
from rota.cli.session import administer
from rota.cli.terminal import paging, times
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.names import schedule_names
from rota.cli.terminal.output import compact, print_json, remark, table
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.model.schedule_edit import ManualRun, ScheduleEdit


@commands.command("edits")
@watched
def edits(
    ctx: typer.Context,
    name: Name,
    limit: paging.Limit = 20,
    after: paging.AfterId = None,
    tenant: Tenant = "",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List changes to a schedule, newest first."""
    with administer(ctx) as app:
        app.schedules.sync.get(name, tenant=tenant)
        found = app.schedules.sync.edits(
            name, tenant=tenant, limit=limit, cursor=paging.place(after)
        )
        now = app.clock.sync.now()
    if json:
        print_json(list(found.items))
    elif not found.items:
        remark("no edits")
    else:
        rows = [_row(edit, now, absolute) for edit in found.items]
        table(("ENTRY>", "WHEN", "WHO", "WHAT", "CHANGES", "WHY"), rows)
    paging.more(len(found.items), found.cursor)


def _row(one: ScheduleEdit, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    changes = "; ".join(
        f"{it.field}: {compact(it.before)} → {compact(it.after)}" for it in one.changes
    )
    what = one.action.removeprefix("schedule.")
    when = times.shown(one.at, now, is_absolute)
    return one.id, when, one.actor, what, changes, one.reason or ""


@commands.command("manual")
@watched
def manual(
    ctx: typer.Context,
    name: Name,
    limit: paging.Limit = 20,
    after: paging.After = None,
    tenant: Tenant = "",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List manual runs and backfills of a schedule, newest first."""
    cursor = paging.read("manual", after)
    with administer(ctx) as app:
        app.schedules.sync.get(name, tenant=tenant)
        page = app.schedules.sync.manual(name, tenant=tenant, cursor=cursor, limit=limit)
        now = app.clock.sync.now()
    if json:
        print_json([*page.items])
    elif not page.items:
        remark("no manual runs or backfills")
    else:
        rows = [
            (times.shown(it.at, now, absolute), it.actor, _ran(it), it.state or "", it.reason or "")
            for it in page.items
        ]
        table(("WHEN", "WHO", "WHAT", "STATE", "WHY"), rows)
    paging.more(len(page.items), page.cursor, "manual")


def _ran(it: ManualRun) -> str:
    if it.from_at is None or it.until_at is None:
        return f"run {it.run_id}"
    span = f"{times.absolute(it.from_at)} to {times.absolute(it.until_at)}"
    return f"backfill of {plural(it.runs, 'time')}, {span}"


add_actions(commands, "schedules", schedule_names, {"backfill": tables.print_backfill})
