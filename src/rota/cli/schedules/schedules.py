"""`rota schedules`: make, change, stop and start them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.schedules import flags, pages
from rota.cli.session import actor, administer
from rota.cli.tenants.whose import whose
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Absolute, Json, Metadata, Reason, Version
from rota.cli.terminal.names import job_names, one_of, queue_names, schedule_names
from rota.cli.terminal.output import print_json, remark, say, switched, tell
from rota.cli.terminal.watch import watched
from rota.errors import TimingError

if TYPE_CHECKING:
    from rota.admin.schedules.schedules import SyncSchedules
    from rota.app import App
    from rota.timing.preview import Row

commands = typer.Typer(
    name="schedules", help="Schedules: run jobs automatically.", no_args_is_help=True
)

ORDERS = ("name", "next", "last", "newest", "changed")
STATES = ("active", "pending", "paused", "disabled", "finished", "parked")
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=schedule_names)]
Tenant = Annotated[
    str, typer.Option(metavar="NAME", help="Tenant of the schedule.", callback=whose)
]

NewTenant = Annotated[str, typer.Option(metavar="NAME", help="Tenant of the schedule.")]


def acting(app: App) -> SyncSchedules:
    return app.schedules.by(actor()).sync


@commands.command("list")
@watched
def list_schedules(
    ctx: typer.Context,
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
    tenant: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help=f"State: {', '.join(STATES)}.", autocompletion=one_of(STATES)
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text in the name, job, description or time zone."),
    ] = None,
    calendar: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    metadata: Metadata = None,
    order: Annotated[
        str, typer.Option(metavar="ORDER", help=f"Sort order: {', '.join(ORDERS)}.")
    ] = "name",
    attention: Annotated[
        bool,
        typer.Option(
            "--attention", help="Schedules that need attention: late, missed, parked or stopped."
        ),
    ] = False,
    system: Annotated[bool, typer.Option("--system", help="Include Rota's own schedules.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N")] = 500,
    after: Annotated[
        int | None, typer.Option(metavar="ID", help="Start after this schedule (next page).")
    ] = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List schedules: timing in words, next run and result of the last run."""
    wanted: Any = {
        "job": job,
        "queue": queue,
        "attention": attention or None,
        "tag": tag,
        "tenant": tenant,
        "state": values.choice(state, STATES, "--state"),
        "text": text,
        "calendar": calendar,
        "metadata": values.pairs(metadata, "--metadata"),
        "order": values.choice(order, ORDERS, "--order"),
    }
    if after is not None and order != "name":
        values.refuse("--after", "goes with the order of names; raise --limit instead")
    with administer(ctx) as app:
        page = app.schedules.sync.page(**wanted, system=system, after_id=after, limit=limit)
        now = app.clock.sync.now()
    found = [*page.items]
    if json:
        print_json(found)
    elif not found:
        is_narrowed = any(it is not None for key, it in wanted.items() if key != "order")
        remark("no schedules match" if is_narrowed else "no schedules; `rota schedules create`")
    else:
        pages.print_list(found, now, absolute)
        if page.cursor is not None:
            how = f"add --after {found[-1].id}" if order == "name" else "raise --limit"
            remark(f"{limit} shown; for more {how}")


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, tenant: Tenant = "", json: Json = False) -> None:
    """Show one schedule: timing, policies, next run times and recent results."""
    with administer(ctx) as app:
        found = app.schedules.sync.get(name, tenant=tenant)
        now = app.clock.sync.now()
        if json:
            print_json(found)
            return
        has_times = found.state in ("active", "pending") and found.init is None
        coming, problem = _coming(app, name, tenant) if has_times else ([], None)
        past = app.schedules.sync.history(name, tenant=tenant, limit=5)
    pages.print_details(found, now)
    pages.print_short_times(coming, past, now)
    if problem is not None:
        remark(f"its next times cannot be told: {problem}")


def _coming(app: App, name: str, tenant: str) -> tuple[list[Row], str | None]:
    """A timing that cannot be followed here does not keep the rest from being shown."""
    try:
        return app.schedules.sync.preview(name, tenant=tenant, count=3), None
    except TimingError as error:
        return [], str(error)


@commands.command("create")
@flags.takes(*flags.FLAGS)
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option(metavar="NAME")],
    job: Annotated[str, typer.Option(metavar="NAME", help="Job to run.")],
    template: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Timing template; see `rota schedules templates`."),
    ] = None,
    reason: Reason = None,
    tenant: NewTenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Create a schedule. Pass exactly one of --cron, --every, --at, --init and --template."""
    arguments = flags.read(given)
    with administer(ctx) as app:
        made = acting(app).create(
            name, job, tenant=tenant, template=template, reason=reason, **arguments
        )
    if json:
        print_json(made)
    else:
        say(f'schedule "{name}" created: {made.timing}')


@commands.command("update")
@flags.takes(*flags.FLAGS)
def update(
    ctx: typer.Context,
    name: Name,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="New job.")] = None,
    version: Version = None,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Update the given fields; `none` clears a value. The audit trail keeps old and new values."""
    arguments = flags.read(given)
    if not arguments and job is None:
        values.refuse("NAME", "nothing to change: give what is to be different")
    with administer(ctx) as app:
        changed = acting(app).update(
            name, tenant=tenant, job=job, version=version, reason=reason, **arguments
        )
    if json:
        print_json(changed)
    else:
        say(f'schedule "{name}" updated: {changed.timing}')


@commands.command("delete")
def delete(
    ctx: typer.Context,
    name: Name,
    cancel_waiting: Annotated[
        bool, typer.Option("--cancel-waiting", help="Cancel its runs that have not started.")
    ] = False,
    version: Version = None,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Delete a schedule. Its history, ledger and audit entries are kept."""
    with administer(ctx) as app:
        cancelled = acting(app).delete(
            name, tenant=tenant, cancel_waiting=cancel_waiting, version=version, reason=reason
        )
    runs = f", {cancelled} waiting runs cancelled" if cancel_waiting else ""
    text = f'schedule "{name}" deleted{runs}'
    told = {"schedule": name, "tenant": tenant, "action": "deleted", "cancelled_runs": cancelled}
    tell(json, text, **told)


@commands.command("enable")
def enable(
    ctx: typer.Context, name: Name, reason: Reason = None, tenant: Tenant = "", json: Json = False
) -> None:
    """Enable a schedule from now on."""
    with administer(ctx) as app:
        is_changed = acting(app).enable(name, reason, tenant=tenant)
    text = f'schedule "{name}" {switched("enabled", is_changed)}'
    told = {"schedule": name, "tenant": tenant, "action": "enabled", "is_changed": is_changed}
    tell(json, text, **told)


@commands.command("disable")
def disable(
    ctx: typer.Context, name: Name, reason: Reason = None, tenant: Tenant = "", json: Json = False
) -> None:
    """Disable a schedule: its times are skipped until it is enabled."""
    with administer(ctx) as app:
        is_changed = acting(app).disable(name, reason, tenant=tenant)
    text = f'schedule "{name}" {switched("disabled", is_changed)}'
    told = {"schedule": name, "tenant": tenant, "action": "disabled", "is_changed": is_changed}
    tell(json, text, **told)


@commands.command("pause")
def pause(
    ctx: typer.Context,
    name: Name,
    reason: Reason = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="2h|TIME", help="Resume automatically after this duration or at this time."
        ),
    ] = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Pause a schedule: its times are skipped until it is resumed."""
    end = values.since(until, "--until")
    with administer(ctx) as app:
        is_changed = acting(app).pause(name, reason, end, tenant=tenant)
        paused = app.schedules.sync.get(name, tenant=tenant)
    until_then = f" until {times.absolute(paused.paused_until)}" if paused.paused_until else ""
    text = f'schedule "{name}" {switched("paused", is_changed)}{until_then}'
    told = {"schedule": name, "tenant": tenant, "action": "paused", "is_changed": is_changed}
    tell(json, text, **told)


@commands.command("resume")
def resume(
    ctx: typer.Context,
    name: Name,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Treat times skipped by the pause as missed.")
    ] = False,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Resume a paused schedule from now on."""
    with administer(ctx) as app:
        is_changed = acting(app).resume(name, reason, catch_up=catch_up, tenant=tenant)
    text = f'schedule "{name}" {"resumed" if is_changed else "was not paused"}'
    told = {"schedule": name, "tenant": tenant, "action": "resumed", "is_changed": is_changed}
    tell(json, text, **told)


@commands.command("trigger")
def trigger(
    ctx: typer.Context,
    name: Name,
    payload: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE|-", help="Payload for this run. Default: the schedule's."),
    ] = None,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Run a schedule now, even if it is paused. Its next run time does not change."""
    arguments = values.payload(payload, "--payload")
    with administer(ctx) as app:
        done = acting(app).trigger(name, arguments, tenant=tenant, reason=reason)
    if json:
        answer = {"success": True, "run_id": done.run_id, "job": done.job, "job_name": done.job}
        print_json(answer | {"schedule": done.schedule})
    else:
        say(f"run {done.run_id} of {done.job} enqueued")


@commands.command("reschedule")
def reschedule(
    ctx: typer.Context,
    name: Name,
    at: Annotated[
        str, typer.Option(metavar="30m|TIME", help="Next run time: a duration from now, or a time.")
    ],
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
) -> None:
    """Move the next run of a schedule. Later runs keep their usual times."""
    instant = values.since(at, "--at")
    assert instant is not None
    with administer(ctx) as app:
        acting(app).reschedule(name, instant, tenant=tenant, reason=reason)
        moved = app.schedules.sync.get(name, tenant=tenant)
        now = app.clock.sync.now()
    # One that is paused or disabled has no next time, and keeps the instant that was set.
    text = f'schedule "{name}" runs next at {times.both(moved.moved_to or moved.next_run_at, now)}'
    if moved.state in ("paused", "disabled"):
        text += f", if it is not {moved.state} then, as it is now"
    tell(json, text, schedule=name, tenant=tenant, action="rescheduled")
