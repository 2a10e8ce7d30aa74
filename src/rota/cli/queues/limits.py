"""`rota limits`: how many runs may start; who has a place and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import actor, administer
from rota.cli.tenants.whose import (
    has_limit,
    has_schedule,
    named,
    refuse_slash,
    whole_name,
    whose_limit,
)
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.each import each
from rota.cli.terminal.flags import Json, Reason
from rota.cli.terminal.names import limit_names
from rota.cli.terminal.output import facts, heading, print_json, remark, say, table
from rota.cli.terminal.watch import watched
from rota.model.tenant import split_name
from rota.model.words import plural

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.limit import LimitInfo, LimitRun

commands = typer.Typer(
    name="limits", help="Limits: concurrency, rate and ordering of runs.", no_args_is_help=True
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Limit name, or TENANT/NAME.", autocompletion=limit_names),
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME", help="One or more limits: NAME, or TENANT/NAME.", autocompletion=limit_names
    ),
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
KINDS = ("concurrency", "rate", "sequence")
ORDERS = ("name", "fullest", "longest")
ON_FULL = ("wait", "skip", "replace", "cancel_running")
AFTER = ("end", "success")
_ANY = "any"


@commands.command("list")
@watched
def list_limits(
    ctx: typer.Context,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="Limits of this tenant.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help=f"Kind: {', '.join(KINDS)}.")
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Limits of this job.")] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Limits of this queue.")
    ] = None,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "name",
    json: Json = False,
) -> None:
    """List limits: rule, slots in use and runs waiting."""
    wanted = None if kind is None else values.choice(kind, KINDS, "--kind")
    with administer(ctx) as app:
        found = app.limits.sync.list(
            order=paging.order(order, ORDERS),
            tenant=tenant, kind=wanted, job=job, queue=queue,
        )  # fmt: skip
    if json:
        print_json(found)
    elif found:
        headers = (
            "LIMIT",
            "APPLIES TO",
            "RULE",
            "IN USE>",
            "WAITING>",
            "FULL>",
            "WHEN FULL",
            "NOTE",
        )
        table(headers, [_row(limit) for limit in found])
        waiting = sum(it.waiting for it in found)
        remark(f"{plural(len(found), 'limit')}, {waiting:,} waiting")
    else:
        remark("no limits; jobs declare them, or create one with `rota limits set`")


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
            (one.value, f"{one.in_use:,}", one.waiting or "",
             times.shown(one.wait_until, now, False), one.blocked_by or "")
            for one in found.keys
        ]  # fmt: skip
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
            (it.id, it.job, it.queue, it.state, it.value, times.shown(it.since, now, False))
            for it in found
        ]
        table(("RUN>", "JOB", "QUEUE", "STATE", "KEY", "SINCE"), rows)


@commands.command("set")
def set_limit(
    ctx: typer.Context,
    name: Name,
    cap: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of runs. 0: nothing new starts.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help=f"Kind: {', '.join(KINDS)}. Default for a new limit: {KINDS[0]}."
        ),
    ] = None,
    per: Annotated[str | None, typer.Option(metavar="1m", help="Rate limits: period.")] = None,
    burst: Annotated[
        int | None, typer.Option(metavar="N", help="Rate limits: maximum burst.")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Rate limits: payload field that holds the cost of a run."
        ),
    ] = None,
    next_after: Annotated[
        str | None,
        typer.Option(
            metavar="END", help=f"Sequences: start the next run after {' or '.join(AFTER)}."
        ),
    ] = None,
    on_full: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help=f"Policy when the limit is full: {', '.join(ON_FULL)}."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(metavar="QUEUE", help='Limit only runs of this queue; "any": all queues.'),
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB", help='Limit only runs of this job; repeatable; "any": all jobs.'
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="SCHEDULE", help='Limit only runs of this schedule; "any": all runs.'),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE", help="Count separately by value, e.g. customer:{customer_id}."
        ),
    ] = None,
    tenant: Tenant = "",
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Create or update a limit. It takes effect at once; running attempts continue."""
    given: dict[str, Any] = {
        "cap": cap,
        "kind": None if kind is None else values.choice(kind, KINDS, "--kind"),
        "period_seconds": None if per is None else values.seconds(per, "--per"),
        "burst": burst,
        "cost": cost,
        "next_after": None
        if next_after is None
        else values.choice(next_after, AFTER, "--next-after"),
        "on_full": None if on_full is None else values.choice(on_full, ON_FULL, "--on-full"),
        "queue": queue,
        "jobs": job or None,
        "schedule": schedule,
        "key": key,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    for field in ("queue", "schedule"):
        if changes.get(field) == _ANY:
            changes[field] = None
    if changes.get("jobs") == [_ANY]:
        changes["jobs"] = None
    if per is not None:
        changes.setdefault("kind", "rate")
    with administer(ctx) as app:
        if not tenant and split_name(name)[0] is not None and not has_limit(app, name):
            refuse_slash(name, "NAME", "pass it without --tenant, or a name without a slash")
        if changes.get("schedule") is not None:
            changes["schedule"] = _schedule_of(app, changes["schedule"], tenant)
        made = app.limits.by(actor()).sync.set(name, tenant=tenant, reason=reason, **changes)
    if json:
        print_json(made)
        return
    say(f'limit "{whole_name(made.tenant, made.name)}" set for {made.scope}: {made.rule}')


def _schedule_of(app: App, schedule: str, tenant: str) -> str:
    """A limit knows a schedule by its name alone: the tenant is the limit's own."""
    owner, rest = named(app, schedule, has_schedule)
    if owner is not None and owner != tenant:
        refuse_slash(schedule, "--schedule", f"pass {owner}/NAME as the name of the limit too")
    return rest


@commands.command("remove")
def remove(
    ctx: typer.Context, names: Names, tenant: Tenant = "", reason: Reason = None, json: Json = False
) -> int:
    """Remove limits and release waiting runs. For limits declared in code, remove operator
    overrides.
    """

    def one(app: App, name: str) -> str:
        owner, rest = (tenant, name) if tenant else named(app, name, has_limit)
        answer = app.limits.by(actor()).sync.remove(rest, tenant=owner or "", reason=reason)
        return "removed" if answer == "removed" else "reset to the values in the code"

    return each(ctx, "limit", names, one, is_json=json)


@commands.command("unblock")
def unblock(
    ctx: typer.Context,
    name: Name,
    key: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Unblock only the counter with this value.")
    ] = None,
    tenant: Tenant = "",
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Unblock a sequence that waits for a failed run to succeed."""
    with administer(ctx) as app:
        freed = app.limits.by(actor()).sync.unblock(name, key, tenant=tenant, reason=reason)
    if json:
        print_json({"limit": name, "unblocked": freed})
        return
    say(f'limit "{whole_name(tenant, name)}": {plural(freed, "sequence")} unblocked')
