"""`rota jobs update`, `plan` and `sync`: settings of operators, and those of the code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.jobs.jobs import Name, commands
from rota.cli.session import actor, administer, session
from rota.cli.terminal import times, values
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.flags import Json, Reason, Reset, Version, to_reset
from rota.cli.terminal.output import compact, print_json, remark, say, table
from rota.errors import JobError
from rota.model.words import plural

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.drift import Drift
    from rota.operations.job_changes import JobChanges
    from rota.operations.jobs import SyncJobs


@commands.command("update")
def update(
    ctx: typer.Context,
    name: Name,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="Description.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Queue of new runs.")] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="0..9", help="Priority; lower runs first.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum attempts of new runs.")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help=f"Timeout of each attempt: {values.DURATION}, or none."
        ),
    ] = None,
    backoff: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|JSON", help="Retry backoff: fixed, linear, exponential or JSON."
        ),
    ] = None,
    tags: Annotated[
        str | None, typer.Option(metavar="A,B", help="Tags; replaces the current ones.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help="Metadata; replaces the current value.")
    ] = None,
    default_payload: Annotated[
        str | None,
        typer.Option(
            "--default-payload",
            "--payload",
            metavar="JSON",
            help="Payload of runs without one: JSON, @file, - for stdin, or none.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Delay of runs without one, or none."),
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Cancel runs that have not started this long after they may, or none.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE", help="Key of runs without one, e.g. invoice:{invoice_id}, or none."
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tenant of runs without one, or none.")
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Events that start the job; replaces the current list."),
    ] = None,
    event_filters: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Filters by event; replaces the current ones. @file, or - for stdin.",
        ),
    ] = None,
    event_delivery: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|none",
            help='Debounce or throttle events: {"debounce_seconds": 5}, {"throttle_seconds": 60}.',
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Minimum level of stored log lines, or none."),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="days=30,…|JSON|none",
            help="Retention of runs and logs; replaces the current value.",
        ),
    ] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="FUNCTION", help="SQL jobs: function to call.")
    ] = None,
    run_as: Annotated[
        str | None, typer.Option(metavar="ROLE", help="SQL jobs: role to run as, or none.")
    ] = None,
    transaction_mode: Annotated[
        str | None,
        typer.Option(metavar="whole|none", help="SQL jobs: none for a procedure that commits."),
    ] = None,
    reset: Reset = None,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Update a job's settings. They take precedence over the code. Queue, priority, maximum
    attempts and default payload apply to new runs; timeout, backoff and log level apply from the
    next attempt.
    """
    given: dict[str, Any] = {
        "description": description,
        "queue": queue,
        "priority": priority,
        "max_attempts": max_attempts,
        "backoff": values.backoff(backoff),
        "tags": values.names(tags),
        "metadata": values.payload(metadata, "--metadata"),
        "events": values.names(events),
        "event_filters": values.payload(event_filters, "--event-filters"),
        "function": sql,
        "transaction_mode": transaction_mode,
    }
    changes: JobChanges = {key: it for key, it in given.items() if it is not None}  # type: ignore[assignment]
    clearable: dict[str, tuple[str | None, Callable[[str], Any]]] = {
        "timeout": (timeout, lambda text: values.seconds(text, "--timeout")),
        "default_payload": (
            default_payload, lambda text: values.payload(text, "--default-payload")
        ),
        "event_delivery": (event_delivery, lambda text: values.payload(text, "--event-delivery")),
        "log_level": (log_level, str),
        "retention": (retention, _retention),
        "delay": (delay, lambda text: values.seconds(text, "--delay")),
        "expires_in": (expires_in, lambda text: values.seconds(text, "--expires-in")),
        "key": (key, str),
        "tenant": (tenant, str),
        "run_as": (run_as, str),
    }  # fmt: skip
    changes |= {  # type: ignore[typeddict-item]
        name: None if text == "none" else read(text)
        for name, (text, read) in clearable.items()
        if text is not None
    }
    if not changes and not reset:
        raise typer.BadParameter(values.NOTHING)
    with administer(ctx) as app:
        jobs = app.jobs.by(actor()).sync
        try:
            found = jobs.update(
                name, reset=to_reset(reset), version=version, reason=reason, **changes
            )
        except JobError as error:
            # The error is about a typed value, not about the application's code.
            raise Failure(str(error), hint=error.hint, code=2) from error
    if json:
        print_json(found)
    else:
        say(f'job "{name}" updated')
    if retention is not None:
        remark(
            "a shorter retention also applies to runs that have already ended, at the next pass; a"
            " longer one applies to runs that end from now on"
        )


def _retention(text: str) -> dict[str, Any] | None:
    """Read `days=30,failed_days=90`, or JSON."""
    if text.lstrip().startswith(("{", "@", "-")):
        return values.payload(text, "--retention")
    found: dict[str, Any] = {}
    for part in values.names(text) or []:
        name, _, number = part.partition("=")
        if not number.isdigit():
            values.refuse("--retention", f"{part!r} is not a number; write days=30,failed_days=90")
        found[name] = int(number)
    return found


# The differences between code and database.

WORDS = {
    "new": "new: will be added",
    "follows": "will be set from the code",
    "kept": "kept",
    "gone": "no longer in the code",
    "revived": "back in the code",
    "deleted": "deleted by an operator, stays deleted",
    "taken": "name taken by another schedule",
    "left": "removed from the code, {}: rota schedules delete",
    "renamed": "will be renamed from {}",
}
# The fate of a schedule that the code no longer declares.
_LEFT = {
    "active": "still active",
    "pending": "still active",
    "shadow": "still decides, as a shadow",
    "job_disabled": "skips its times (job disabled)",
    "job_deleted": "skips its times (job deleted from code)",
}


def _declared(ctx: typer.Context, app: App) -> SyncJobs:
    """Load the application without opening it: reading must not register anything."""
    loaded = session(ctx).load().app
    jobs = app.jobs.by(actor()).of(loaded.registry, loaded.config)
    return jobs.sync


@commands.command("plan")
def plan(ctx: typer.Context, json: Json = False) -> None:
    """Compare the application's jobs with the database. Shows the differences, and who made
    them."""
    with administer(ctx) as app:
        found = _declared(ctx, app).plan()
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        headers = ("JOB", "OBJECT", "FIELD", "CODE", "DATABASE", "STATUS", "BY")
        table(headers, [_drift(drift, now) for drift in found])
    else:
        remark("code and database are in sync")


def _drift(one: Drift, now: datetime) -> tuple[object, ...]:
    what = one.kind if one.kind == "job" else f"{one.kind} {one.name}"
    by = f"{one.changed_by} {times.ago(one.changed_at, now)}" if one.changed_by else ""
    is_field = one.field is not None
    code, stored = (compact(one.code), compact(one.stored)) if is_field else ("", "")
    status = WORDS[one.change]
    if one.change == "left":
        status = status.format(_LEFT.get(one.stored, one.stored))
    elif one.change == "renamed":
        status = status.format(one.stored)
    return (one.job, what, one.field or "", code, stored, status, by)


@commands.command("sync")
def sync(
    ctx: typer.Context,
    force: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Job whose operator changes are overwritten; repeatable."),
    ] = None,
    force_all: Annotated[
        bool, typer.Option("--force-all", help="Overwrite operator changes of all jobs.")
    ] = False,
    json: Json = False,
) -> None:
    """Apply everything that the application declares: jobs, schedules and queues. Also marks jobs
    that it no longer declares."""
    with administer(ctx) as app:
        found = _declared(ctx, app).sync_definitions(force=force_all or force or ())
    if json:
        print_json(found)
        return
    for what, names in (("written", found.written), ("marked as deleted", found.deleted)):
        if names:
            say(f"{plural(len(names), 'job')} {what}: {', '.join(names)}")
    for what, count in (("schedule", found.schedules), ("queue", found.queues)):
        if count:
            say(f"{plural(count, what)} written")
    if not (found.written or found.deleted or found.schedules or found.queues):
        say("nothing to write")
