"""`rota tenants`: list and show tenants; settings, pause and resume."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.names import tenant_names
from rota.cli.terminal.output import facts, heading, print_json, remark, table
from rota.cli.terminal.watch import watched
from rota.model.fields import facts_of
from rota.model.formatting import number, plural, size
from rota.model.tenant import TenantSettings

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.tenant import TenantInfo, TenantStats

commands = typer.Typer(name="tenants", help=DECLARED["tenants"], no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Tenant name.", autocompletion=tenant_names)
]
HEADERS = (
    "TENANT",
    "STATE",
    "WAITING>",
    "HELD>",
    "RUNNING>",
    "SUCCEEDED TODAY>",
    "FAILED TODAY>",
    "SCHEDULES>",
    "NOTE",
)


def _list(ctx: typer.Context, app: App, found: list[TenantInfo], given: dict[str, Any]) -> None:
    if not found:
        empty = "no tenants; a tenant exists once a run or schedule names it"
        remark("no tenants match" if given.keys() & {"paused", "text"} else empty)
        return
    now = app.clock.sync.now()
    table(HEADERS, [_row(tenant, now, ctx.params["absolute"]) for tenant in found])
    if len(found) < ctx.params["limit"] and ctx.params["after"] is None:
        remark(plural(len(found), "tenant"))


commands.command("list")(watched(list_command("tenants", _list, limit=1000)))


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
            ("state", _pause(one, lambda at: times.both(at, now)) or "active"),
            *((label.lower(), text) for label, text in facts_of(one, TenantSettings)),
            ("waiting", f"{one.waiting:,}" + (f", {one.held:,} held" if one.held else "")),
            ("running", f"{one.running:,}"),
            ("schedules", f"{one.schedules:,}"),
            *_went(found),
        ]
    )
    if found.days:
        heading("by day (UTC)")
        rows = [
            (
                it.day,
                number(it.enqueued) if it.enqueued else "",
                size(it.bytes) if it.bytes else "",
                number(it.succeeded),
                number(it.failed),
                number(it.other) if it.other else "",
                times.span(it.seconds),
            )
            for it in found.days
        ]
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


add_actions(commands, "tenants", tenant_names)
