"""`rota tenants`: list and show tenants; settings, pause and resume."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.each import each
from rota.cli.terminal.flags import Absolute, Json, Reason, Version
from rota.cli.terminal.names import tenant_names
from rota.cli.terminal.output import (
    compact,
    facts,
    heading,
    print_json,
    remark,
    switched,
    table,
    tell,
)
from rota.cli.terminal.watch import watched
from rota.model.words import number, plain, plural, size

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.tenant import TenantInfo, TenantStats

commands = typer.Typer(
    name="tenants", help="Tenants: fair shares, quotas, retention and data.", no_args_is_help=True
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Tenant name.", autocompletion=tenant_names)
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="One or more tenants.", autocompletion=tenant_names),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        "--for",
        metavar="2h|TIME",
        help="Resume automatically after this duration or at this time.",
    ),
]
ORDERS = ("name", "waiting", "failed")
HEADERS = (
    "TENANT", "STATE", "WAITING>", "HELD>", "RUNNING>", "SUCCEEDED TODAY>", "FAILED TODAY>",
    "SCHEDULES>", "NOTE",
)  # fmt: skip
# The settings that `none` on the command line clears.
_NUMBERS = (
    "max_waiting", "max_runs_per_day", "max_bytes_per_day", "retention_days",
    "failed_retention_days",
)  # fmt: skip


@commands.command("list")
@watched
def list_tenants(
    ctx: typer.Context,
    paused: Annotated[bool, typer.Option("--paused", help="Only paused tenants.")] = False,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in the name or description.")
    ] = None,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "name",
    limit: paging.LongLimit = 1000,
    after: paging.After = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List tenants. These are tenants with settings, schedules, unfinished runs, or activity in the
    last week."""
    with administer(ctx) as app:
        page = app.tenants.sync.page(
            order=paging.order(order, ORDERS),
            paused=paused or None,
            text=text,
            limit=limit,
            cursor=paging.read(f"tenants {order}", after),
        )
        now = app.clock.sync.now()
    found = [*page.items]
    if json:
        print_json(found)
    elif found:
        table(HEADERS, [_row(tenant, now, absolute) for tenant in found])
        if page.cursor is None and after is None:
            remark(plural(len(found), "tenant"))
    else:
        remark(
            "no tenants are paused"
            if paused
            else "no tenants; a tenant exists once a run or schedule names it"
        )
    paging.more(len(found), page.cursor, f"tenants {order}")


def _row(one: TenantInfo, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    state = "paused" if one.is_paused else "active"
    done = (f"{count:,}" for count in (one.running, one.succeeded_today, one.failed_today))
    counts = (f"{one.waiting:,}", f"{one.held:,}" if one.held else "", *done)
    news = _pause(one, lambda at: times.shown(at, now, is_absolute)) or one.description
    return one.name, state, *counts, one.schedules, news


def _pause(one: TenantInfo, shown: Callable[[datetime | None], str]) -> str:
    if not one.is_paused:
        return ""
    reason = f": {one.pause_reason}" if one.pause_reason else ""
    end = f"; resumes {shown(one.paused_until)}" if one.paused_until else ""
    return f"paused {shown(one.paused_at)} by {one.paused_by}{reason}{end}"


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Show one tenant: its settings, schedules, runs and activity."""
    with administer(ctx) as app:
        found = app.tenants.sync.stats(name)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    one = found.tenant
    facts(
        [
            ("tenant", one.name),
            ("description", one.description),
            ("state", _pause(one, lambda at: times.both(at, now)) or "active"),
            ("weight", plain(one.weight)),
            *((name.replace("_", " "), number(getattr(one, name))) for name in _NUMBERS),
            ("metadata", compact(one.metadata) if one.metadata else ""),
            ("waiting", f"{one.waiting:,}" + (f", {one.held:,} held" if one.held else "")),
            ("running", f"{one.running:,}"),
            ("schedules", f"{one.schedules:,}"),
            *_went(found),
        ]
    )
    if found.days:
        heading("by day (UTC)")
        rows = [
            (it.day, number(it.enqueued) if it.enqueued else "", size(it.bytes) if it.bytes else "",
             number(it.succeeded), number(it.failed), number(it.other) if it.other else "",
             times.span(it.seconds))
            for it in found.days
        ]  # fmt: skip
        headers = ("DAY", "ENQUEUED>", "PAYLOADS>", "SUCCEEDED>", "FAILED>", "OTHER>", "TOOK>")
        table(headers, rows)


def _went(found: TenantStats) -> list[tuple[str, object]]:
    if not found.recent:
        return []
    failed = f"{found.recent_failed:,} of the last {plural(found.recent, 'run')}"
    if found.median_seconds is None or found.p95_seconds is None:
        return [("failed", failed)]
    median, p95 = (times.took(it * 1000) for it in (found.median_seconds, found.p95_seconds))
    took = f"median {median}, p95 {p95}"
    return [("failed", failed), ("took", took)]


@commands.command("set")
def set_tenant(
    ctx: typer.Context,
    name: Name,
    weight: Annotated[
        float | None, typer.Option(metavar="N", help="Weight of its share among tenants.")
    ] = None,
    max_waiting: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum number of waiting runs.")
    ] = None,
    max_runs_per_day: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum runs enqueued per day.")
    ] = None,
    max_bytes_per_day: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum payload bytes enqueued per day.")
    ] = None,
    retention_days: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum days to keep its finished runs.")
    ] = None,
    failed_retention_days: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum days to keep its failed runs.")
    ] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="Description.")] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help="Metadata, as a JSON object.")
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Reset all settings to their defaults.")
    ] = False,
    reason: Reason = None,
    version: Version = None,
    json: Json = False,
) -> None:
    """Update a tenant's settings. Tenants need no registration."""
    given: dict[str, Any] = {
        "max_waiting": max_waiting, "max_runs_per_day": max_runs_per_day,
        "max_bytes_per_day": max_bytes_per_day, "retention_days": retention_days,
        "failed_retention_days": failed_retention_days,
    }  # fmt: skip
    settings: dict[str, Any] = {
        key: values.number_or_none(text, f"--{key.replace('_', '-')}")
        for key, text in given.items()
        if text is not None
    }
    settings |= {} if weight is None else {"weight": weight}
    settings |= {} if description is None else {"description": description}
    settings |= {} if metadata is None else {"metadata": values.payload(metadata, "--metadata")}
    if reset == bool(settings):
        values.refuse("--reset", "pass either --reset or settings to change")
    with administer(ctx) as app:
        face = app.tenants.by(actor()).sync
        found = None if reset else face.set(name, reason, version=version, **settings)
        if reset:
            face.remove(name, reason)
    if json and found is not None:
        print_json(found)
        return
    done = "reset" if reset else "set"
    tell(json, f'tenant "{name}" {done}', tenant=name, action=done)


@commands.command("pause")
def pause(
    ctx: typer.Context, names: Names, reason: Reason = None, until: Until = None, json: Json = False
) -> int:
    """Pause tenants: no run starts. Running attempts continue; new runs wait."""
    end = values.since(until, "--until")
    return each(ctx, "tenant", names, _pausing(reason, end), is_json=json)


def _pausing(reason: str | None, until: datetime | timedelta | None) -> Callable[[App, str], str]:
    def one(app: App, name: str) -> str:
        held = app.tenants.by(actor()).sync.pause(name, reason, until)
        end = app.tenants.sync.get(name).paused_until
        text = switched("paused", held is not None)
        text = f"{text} until {times.absolute(end) if end else 'it is resumed'}"
        return f"{text}; {plural(held, 'run')} held" if held else text

    return one


@commands.command("resume")
def resume(ctx: typer.Context, names: Names, reason: Reason = None, json: Json = False) -> int:
    """Resume paused tenants. Their runs start again, in order."""

    def one(app: App, name: str) -> str:
        freed = app.tenants.by(actor()).sync.resume(name, reason)
        if freed is None:
            return "was not paused"
        return f"resumed; {plural(freed, 'run')} released" if freed else "resumed"

    return each(ctx, "tenant", names, one, is_json=json)
