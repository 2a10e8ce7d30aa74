"""`rota schedules preview`, `backfill`, `history`, `simulate` and `templates`: what comes, and what
was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.schedules import flags, load_map, pages
from rota.cli.schedules.schedules import Name, Tenant, acting, commands
from rota.cli.session import administer
from rota.cli.terminal import values
from rota.cli.terminal.flags import Absolute, Json, Oldest, Reason, Version
from rota.cli.terminal.names import job_names, one_of, queue_names, schedule_names
from rota.cli.terminal.output import print_json, remark
from rota.cli.terminal.progress import progress
from rota.cli.terminal.watch import watched

if TYPE_CHECKING:
    from rota.timing.preview import Row

PARTS = ("exceptions", "backfilled")
DECISIONS = ("ran", "caught_up", "skipped", "missed", "superseded")


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
    count: Annotated[int | None, typer.Option(min=1, max=10_000, metavar="N")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start after this time. Default: now.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Also show the times in this time zone.")
    ] = None,
    tenant: Tenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Preview the next run times of a schedule, or of a timing not yet saved, with notes on clock
    changes.
    """
    timing = flags.read(given)
    window: dict[str, Any] = {
        "count": count,
        "after": values.instant(after, "--after"),
        "until": values.instant(until, "--until"),
        "viewer_zone": zone,
    }
    rows = _rows(ctx, name, tenant, timing, window)
    if json:
        print_json([row.to_json() | {"is_skipped": row.is_skipped} for row in rows])
    else:
        pages.print_preview(rows, zone is not None)


def _rows(
    ctx: typer.Context,
    name: str | None,
    tenant: str,
    timing: dict[str, Any],
    window: dict[str, Any],
) -> list[Row]:
    """What says everything itself needs no database."""
    if name is None and window["after"] is not None and timing.get("calendar") is None:
        from rota.admin.schedules.plans import preview_unsaved

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
    priority: Annotated[int | None, typer.Option(min=0, max=9, metavar="0..9")] = None,
    again: Annotated[bool, typer.Option("--again", help="Include times that already ran.")] = False,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Enqueue runs for past times of a schedule. The ledger keeps the original decisions."""
    from datetime import timedelta

    first, last = values.since(start, "--from"), values.since(end, "--until")
    with administer(ctx) as app:
        now = app.clock.sync.now()
        ends: Any = [now - one if isinstance(one, timedelta) else one for one in (first, last)]
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
        pages.print_backfill(done)


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
    since: Annotated[str | None, typer.Option(metavar="2h|TIME")] = None,
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Entries before this time (next page).")
    ] = None,
    oldest: Oldest = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N")] = 50,
    tenant: Tenant = "",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Show the ledger: the decision for each scheduled time, newest first."""
    from datetime import timedelta

    values.choice(decision, DECISIONS, "--decision")
    part: Any = values.choice(only, PARTS, "--only")
    start, end = values.since(since, "--since"), values.instant(before, "--before")
    with administer(ctx) as app:
        now = app.clock.sync.now()
        found = app.schedules.sync.history(
            name,
            tenant=tenant,
            decision=decision,
            since=now - start if isinstance(start, timedelta) else start,
            before=end,
            only=part,
            order="oldest" if oldest else "newest",
            limit=limit,
        )
        manual = [] if json else app.schedules.sync.manual(name, tenant=tenant, limit=1)
    if json:
        print_json(found)
        return
    pages.print_history(found, now, absolute)
    if len(found) == limit and not oldest:
        last = found[-1].nominal_at.isoformat().replace("+00:00", "Z")
        remark(f"{limit} shown; for older ones add --before {last}")
    if manual:
        whose = f" --tenant {tenant}" if tenant else ""
        remark(f"manual runs and backfills are listed by: rota schedules manual {name}{whose}")


@commands.command("simulate")
def simulate(
    ctx: typer.Context,
    days: Annotated[int, typer.Option(min=1, max=31, metavar="N")] = 7,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of the forecast.")
    ] = "UTC",
    tenant: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    job: Annotated[str | None, typer.Option(metavar="NAME", autocompletion=job_names)] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Schedules whose runs go to this queue.",
            autocompletion=queue_names,
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG")] = None,
    least: Annotated[
        int, typer.Option(min=2, metavar="N", help="Starts per minute that count as a pile-up.")
    ] = 5,
    system: Annotated[bool, typer.Option("--system", help="Include Rota's own schedules.")] = False,
    json: Json = False,
) -> None:
    """Forecast the load of the coming days by hour: pile-ups, likely overlaps and suggestions."""
    with administer(ctx) as app:
        load = app.schedules.sync.simulate(
            days, timezone=timezone, tenant=tenant, job=job, queue=queue, tag=tag, system=system,
            least=least,
        )  # fmt: skip
    if json:
        print_json(load)
    else:
        load_map.draw(load)


@commands.command("templates")
def templates(
    ctx: typer.Context,
    add: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add or update a template; requires --cron.")
    ] = None,
    cron: Annotated[str | None, typer.Option(metavar="EXPRESSION")] = None,
    description: Annotated[str, typer.Option(metavar="TEXT")] = "",
    remove: Annotated[str | None, typer.Option(metavar="NAME", help="Remove a template.")] = None,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """List or edit timing templates for `rota schedules create --template NAME`."""
    if (add is None) != (cron is None):
        values.refuse("--cron", "belongs to --add, and --add needs it")
    with administer(ctx) as app:
        if add is not None and cron is not None:
            acting(app).add_template(add, cron, description, version=version, reason=reason)
        if remove is not None:
            acting(app).remove_template(remove, version=version, reason=reason)
        found = app.schedules.sync.templates()
    pages.print_templates(found, json)
