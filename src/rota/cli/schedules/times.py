"""`rota schedules preview`, `history` and `simulate`: coming and past times."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import flags_of, read_flags, shaped
from rota.cli.reads import CONTEXT, JSON, option, read_command, summary
from rota.cli.schedules import load_map, tables
from rota.cli.schedules.lists import Name, Tenant, commands
from rota.cli.session import administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json, Zone
from rota.cli.terminal.names import one_of, schedule_names
from rota.cli.terminal.output import print_json
from rota.cli.terminal.watch import watched
from rota.model.fields import arguments_of
from rota.operations.reading import plan_behind
from rota.operations.schedules.reads import ScheduleReads

if TYPE_CHECKING:
    from rota.app import App
    from rota.timing.preview import PreviewRow

PARTS = ("exceptions", "backfilled")
KINDS = ("triggered", "backfilled")
DECISIONS = ("ran", "caught_up", "skipped", "missed", "superseded", *KINDS)


_PREVIEW = [
    one
    for one in arguments_of(plan_behind(ScheduleReads.preview))
    if one.name not in ("name", "tenant", "viewer_zone")
]


def _preview(
    ctx: typer.Context,
    name: str | None,
    display_timezone: str | None,
    tenant: str,
    json: bool,
    **texts: Any,
) -> None:
    given = dict(read_flags(_PREVIEW, texts))
    rows = _rows(ctx, name, tenant, given, display_timezone)
    if json:
        print_json([row.to_json() | {"is_skipped": row.is_skipped} for row in rows])
    else:
        tables.print_preview(rows)


def _rows(
    ctx: typer.Context, name: str | None, tenant: str, given: dict[str, Any], viewer: str | None
) -> list[PreviewRow]:
    """Compute a complete timing without the database."""
    if name is None and given.get("after") is not None and given.get("calendar") is None:
        from rota.operations.schedules.plans import PreviewRange, preview_unsaved

        window = {key: given.pop(key, None) for key in ("count", "after", "until")}
        return preview_unsaved(given, PreviewRange(**window, viewer_zone=viewer))
    with administer(ctx) as app:
        return app.schedules.sync.preview(name, tenant=tenant, viewer_zone=viewer, **given)


PreviewName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="Schedule name; omit it to preview a timing.",
        autocompletion=schedule_names,
    ),
]
commands.command("preview")(
    shaped(
        _preview,
        "preview",
        summary(plan_behind(ScheduleReads.preview)),
        [
            CONTEXT,
            option("name", PreviewName),
            *flags_of(_PREVIEW),
            option("display_timezone", Zone),
            option("tenant", Tenant, ""),
            JSON,
        ],
    )
)


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


def _zone(app: App, given: dict[str, Any]) -> None:
    """The days are those of the reader, unless the command says otherwise."""
    given.setdefault("timezone", times.zone_name())


commands.command("simulate")(
    read_command(
        "schedules",
        ScheduleReads.simulate,
        lambda ctx, app, load: load_map.draw(load),
        options=(option("display_timezone", Zone),),
        complete=_zone,
    )
)
