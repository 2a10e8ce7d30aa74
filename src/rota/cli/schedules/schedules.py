"""`rota schedules`: create, change, pause and resume schedules."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.schedules import flags
from rota.cli.schedules.lists import Name, Tenant, acting, commands
from rota.cli.session import administer
from rota.cli.tenants.whose import new_name, whole_name
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Json, NameOption, Reason, Reset, Version, to_reset
from rota.cli.terminal.names import job_names, template_names
from rota.cli.terminal.output import print_json, say, switched, tell
from rota.model.words import plural

NewTenant = Annotated[str, typer.Option(metavar="NAME", help="Tenant of the schedule.")]


@commands.command("create")
@flags.takes(*flags.FLAGS)
def create(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new schedule, or TENANT/NAME.")
    ],
    job: Annotated[str, typer.Option(metavar="NAME", help="Job to run.", autocompletion=job_names)],
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Timing template; see `rota schedules templates list`.",
            autocompletion=template_names,
        ),
    ] = None,
    name_option: NameOption = None,
    reason: Reason = None,
    tenant: NewTenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Create a schedule. Pass exactly one of --cron, --every, --at, --init and --template."""
    arguments = flags.read(given)
    tenant, name = new_name(ctx, name, tenant)
    with administer(ctx) as app:
        made = acting(app).create(
            name, job, tenant=tenant, template=template, reason=reason, **arguments
        )
    if json:
        print_json(made)
    else:
        say(f'schedule "{whole_name(tenant, name)}" created: {made.timing}')


@commands.command("update")
@flags.takes(*flags.FLAGS)
def update(
    ctx: typer.Context,
    name: Name,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="New job.")] = None,
    reset: Reset = None,
    version: Version = None,
    reason: Reason = None,
    tenant: Tenant = "",
    json: Json = False,
    **given: Any,
) -> None:
    """Update the given fields; `none` clears a value. The audit trail keeps old and new values."""
    arguments = flags.read(given)
    if not arguments and job is None and not reset:
        raise typer.BadParameter(values.NOTHING)
    with administer(ctx) as app:
        changed = acting(app).update(
            name, tenant=tenant, job=job, version=version, reason=reason, reset=to_reset(reset),
            **arguments,
        )  # fmt: skip
    if json:
        print_json(changed)
    else:
        say(f'schedule "{whole_name(tenant, name)}" updated: {changed.timing}')


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
    runs = f", {plural(cancelled, 'waiting run')} cancelled" if cancel_waiting else ""
    text = f'schedule "{whole_name(tenant, name)}" deleted{runs}'
    facts = {"schedule": name, "tenant": tenant, "action": "deleted", "cancelled_runs": cancelled}
    tell(json, text, **facts)


@commands.command("enable")
def enable(
    ctx: typer.Context, name: Name, reason: Reason = None, tenant: Tenant = "", json: Json = False
) -> None:
    """Enable a schedule from now on."""
    with administer(ctx) as app:
        is_changed = acting(app).enable(name, reason, tenant=tenant)
    text = f'schedule "{whole_name(tenant, name)}" {switched("enabled", is_changed)}'
    facts = {"schedule": name, "tenant": tenant, "action": "enabled", "is_changed": is_changed}
    tell(json, text, **facts)


@commands.command("disable")
def disable(
    ctx: typer.Context, name: Name, reason: Reason = None, tenant: Tenant = "", json: Json = False
) -> None:
    """Disable a schedule: its times are skipped until it is enabled."""
    with administer(ctx) as app:
        is_changed = acting(app).disable(name, reason, tenant=tenant)
    text = f'schedule "{whole_name(tenant, name)}" {switched("disabled", is_changed)}'
    facts = {"schedule": name, "tenant": tenant, "action": "disabled", "is_changed": is_changed}
    tell(json, text, **facts)


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
    end_at = times.absolute(paused.paused_until) if paused.paused_until else "it is resumed"
    text = f'schedule "{whole_name(tenant, name)}" {switched("paused", is_changed)} until {end_at}'
    facts = {"schedule": name, "tenant": tenant, "action": "paused", "is_changed": is_changed}
    tell(json, text, **facts)


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
    text = f'schedule "{whole_name(tenant, name)}" {"resumed" if is_changed else "was not paused"}'
    facts = {"schedule": name, "tenant": tenant, "action": "resumed", "is_changed": is_changed}
    tell(json, text, **facts)


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
    # A paused or disabled schedule has no next time, and keeps the instant that was set.
    at_last = times.both(moved.moved_to or moved.next_run_at, now)
    text = f'schedule "{whole_name(tenant, name)}" runs next at {at_last}'
    if moved.state in ("paused", "disabled"):
        text += f", unless it is still {moved.state} then"
    tell(json, text, schedule=name, tenant=tenant, action="rescheduled")
