"""`rota limits`: the rules, the runs that hold a slot, and those that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.tenants.whose import whole_name, whose_limit
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.names import limit_names
from rota.cli.terminal.output import facts, heading, print_json, remark, table
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.limit import LimitInfo, LimitRun

commands = typer.Typer(name="limits", help=DECLARED["limits"], no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Limit name, or TENANT/NAME.", autocompletion=limit_names),
]
Tenant = Annotated[
    str,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        help="Tenant of the limit. Default: the limit for all tenants.",
        callback=whose_limit,
    ),
]
_HEADERS = ("LIMIT", "APPLIES TO", "RULE", "IN USE>", "WAITING>", "FULL>", "WHEN FULL", "NOTE")


def _list(ctx: typer.Context, app: App, found: list[LimitInfo], given: dict[str, Any]) -> None:
    if not found:
        remark(f"no limits; jobs declare them, or create one with {shown('limits', 'set')}")
        return
    table(_HEADERS, [_row(limit) for limit in found])
    waiting = sum(it.waiting for it in found)
    remark(f"{plural(len(found), 'limit')}, {waiting:,} waiting")


commands.command("list")(watched(list_command("limits", _list)))


def _row(it: LimitInfo) -> tuple[object, ...]:
    full = f"{it.full} of {it.keys}" if it.key else ("yes" if it.full else "")
    waiting = f"{it.waiting:,}" if it.waiting else ""
    name = whole_name(it.tenant, it.name)
    return name, it.scope, it.rule, f"{it.in_use:,}", waiting, full, it.on_full, _news(it)


def _news(it: LimitInfo) -> str:
    if it.is_edited:
        return f"edited by {it.updated_by}"
    return "" if it.is_declared else f"set by {it.updated_by}"


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, tenant: Tenant = "", json: Json = False) -> None:
    """Show one limit: its counters, holders and waiting runs. Up to 100 of each."""
    with administer(ctx) as app:
        found = app.limits.sync.get(name, tenant)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    it = found.limit
    facts(
        [
            ("limit", whole_name(it.tenant, it.name)),
            ("applies to", it.scope),
            ("rule", it.rule),
            ("cost", f"payload field {it.cost}" if it.cost else ""),
            ("when full", it.on_full),
            ("in use", f"{it.in_use:,}"),
            ("waiting", f"{it.waiting:,}"),
            ("admitted", f"{it.admitted:,}"),
            ("declared", _declared(it)),
        ]
    )
    if it.key and found.keys:
        heading("counters")
        rows = [
            (
                key.value,
                f"{key.in_use:,}",
                key.waiting or "",
                times.shown(key.wait_until, now, False),
                key.blocked_by or "",
            )
            for key in found.keys
        ]
        table(("KEY", "IN USE>", "WAITING>", "NEXT SLOT", "BLOCKED BY>"), rows)
    _runs("runs holding a slot", found.holders, now)
    _runs("waiting runs", found.waiters, now)


def _declared(it: LimitInfo) -> str:
    if not it.is_declared:
        return f"no; set by {it.updated_by}"
    return f"in code, overridden by {it.updated_by}" if it.is_edited else "in code"


def _runs(title: str, found: list[LimitRun], now: datetime) -> None:
    if found:
        heading(title)
        rows = [
            (run.id, run.job, run.queue, run.state, run.value, times.shown(run.since, now, False))
            for run in found
        ]
        table(("RUN>", "JOB", "QUEUE", "STATE", "KEY", "SINCE"), rows)


add_actions(commands, "limits", limit_names)
