"""`rota schedules preview`, `backfill`, `history` and `simulate`: coming and past times."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.schedules import flags, load_map, tables
from rota.cli.schedules.lists import Name, Tenant, acting, commands
from rota.cli.session import administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json, Reason, Zone
from rota.cli.terminal.names import (
    job_names,
    one_of,
    queue_names,
    schedule_names,
    tenant_names,
)
from rota.cli.terminal.output import print_json
from rota.cli.terminal.progress import progress
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from rota.timing.preview import PreviewRow

PARTS = ("exceptions", "backfilled")
KINDS = ("triggered", "backfilled")
DECISIONS = ("ran", "caught_up", "skipped", "missed", "superseded", *KINDS)


@commands.command("preview")
@flags.takes(*flags.WHEN)
def preview(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Schedule name; omit it to preview a timing.",
            autocompletion=schedule_names,
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=10_000, metavar="N", help="Number of times to show.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Times after this one. Default: now."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Times until this one.")] = None,
    display_timezone: Zone = None,
    tenant: Tenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Preview the next run times of a schedule or a timing. The timing need not be saved. Clock
    changes and closed days are noted."""
    timing = flags.read(given)
    window: dict[str, Any] = {
        "count": count,
        "after": values.instant(start, "--from"),
        "until": values.instant(until, "--until"),
        "viewer_zone": display_timezone,
    }
    rows = _rows(ctx, name, tenant, timing, window)
    if json:
        print_json([row.to_json() | {"is_skipped": row.is_skipped} for row in rows])
    else:
        tables.print_preview(rows)


def _rows(
    ctx: typer.Context,
    name: str | None,
    tenant: str,
    timing: dict[str, Any],
    window: dict[str, Any],
) -> list[PreviewRow]:
    """Compute a complete timing without the database."""
    if name is None and window["after"] is not None and timing.get("calendar") is None:
        from rota.operations.schedules.plans import preview_unsaved

        timing.pop("calendar", None)
        return preview_unsaved(timing, window)  # type: ignore[arg-type]
    with administer(ctx) as app:
        return app.schedules.sync.preview(name, tenant=tenant, **window, **timing)


@commands.command("backfill")
def backfill(
    ctx: typer.Context,
    name: Name,
    start: Annotated[str, typer.Option("--from", metavar="7d|TIME", help="Start of the period.")],
    end: Annotated[
        str, typer.Option("--until", metavar="1d|TIME", help="End of the period. Default: now.")
    ] = "0s",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the times without enqueueing runs.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Maximum runs per minute.")
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=9, metavar="0..9", help="Priority of the runs; lower runs first."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Include times that already ran.")] = False,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Enqueue runs for past times of a schedule. The ledger keeps the original decisions."""
    first, last = values.since(start, "--from"), values.since(end, "--until")
    with administer(ctx) as app:
        now = app.clock.sync.now()
        ends: Any = [_at(end_, now) for end_ in (first, last)]
        asked: Any = {"rate": rate, "priority": priority, "again": again, "tenant": tenant}
        done = acting(app).backfill(name, *ends, dry_run=True, **asked)
        if not dry_run:
            with progress(f"backfilling {name}", len(done.times)) as bar:
                done = acting(app).backfill(
                    name, *ends, reason=reason, on_progress=bar.advance, **asked
                )
    if json:
        print_json(done)
    else:
        tables.print_backfill(done)


@commands.command("history")
@watched
def history(
    ctx: typer.Context,
    name: Name,
    decision: Annotated[
        str | None,
        typer.Option(
            metavar="DECISION",
            help=f"Decision: {', '.join(DECISIONS)}.",
            autocompletion=one_of(DECISIONS),
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="PART",
            help=f"Part of the ledger: {', '.join(PARTS)}.",
            autocompletion=one_of(PARTS),
        ),
    ] = None,
    manual: Annotated[
        bool, typer.Option("--manual/--no-manual", help="Include manual runs and backfills.")
    ] = True,
    since: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Entries since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Entries before this time.")
    ] = None,
    order: Annotated[str, paging.sorted_by(*paging.NEWEST)] = "newest",
    limit: paging.Limit = 50,
    after: paging.After = None,
    tenant: Tenant = "",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Show the history of a schedule, newest first: the decision for each scheduled time, manual
    runs and backfills."""
    values.choice(decision, DECISIONS, "--decision")
    part: Any = values.choice(only, PARTS, "--only")
    if part is not None and (decision is not None or order != "newest"):
        values.refuse("--only", "cannot be combined with --decision or --order oldest")
    first, last = values.since(since, "--since"), values.since(until, "--until")
    is_whole = decision in KINDS or (manual and part is None)
    kind = f"{'history' if is_whole else 'ledger'} {order}"
    cursor = paging.read(kind, after)
    with administer(ctx) as app:
        now = app.clock.sync.now()
        page = app.schedules.sync.history_page(
            name,
            tenant=tenant,
            decision=decision,
            since=_at(first, now),
            before=_at(last, now),
            only=part,
            manual=is_whole,
            order=paging.order(order, paging.NEWEST),
            cursor=cursor,
            limit=limit,
        )
    found = [*page.items]
    if json:
        print_json(found)
    else:
        tables.print_history(found, now, absolute)
    paging.more(len(found), page.cursor, kind)


def _at(given: datetime | timedelta | None, now: datetime) -> datetime | None:
    """Count a duration back from now."""
    return now - given if isinstance(given, timedelta) else given


@commands.command("simulate")
def simulate(
    ctx: typer.Context,
    days: Annotated[
        int, typer.Option(min=1, max=31, metavar="N", help="Number of days to forecast.")
    ] = 7,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Schedules of this tenant.", autocompletion=tenant_names),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Schedules of this job.", autocompletion=job_names),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Schedules whose runs go to this queue.",
            autocompletion=queue_names,
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Schedules with this tag.")] = None,
    least: Annotated[
        int, typer.Option(min=2, metavar="N", help="Starts per minute that count as a pile-up.")
    ] = 5,
    system: Annotated[bool, typer.Option("--system", help="Include Rota's own schedules.")] = False,
    display_timezone: Zone = None,
    json: Json = False,
) -> None:
    """Forecast the load of the coming days by hour. Shows pile-ups, likely overlaps and
    suggestions."""
    with administer(ctx) as app:
        load = app.schedules.sync.simulate(
            days, timezone=times.zone_name(), tenant=tenant, job=job, queue=queue, tag=tag,
            system=system, least=least,
        )  # fmt: skip
    if json:
        print_json(load)
    else:
        load_map.draw(load)
