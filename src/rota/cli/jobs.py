"""`rota jobs`: what applications have declared, and what operators make of it."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import times, values
from rota.cli.flags import Json, Metadata, Reason, Version
from rota.cli.names import job_names
from rota.cli.output import block, compact, facts, heading, print_json, remark, say, table, tell
from rota.cli.session import actor, administer, session
from rota.cli.watch import watched

if TYPE_CHECKING:
    from datetime import datetime

    from rota.admin.jobs import JobChanges, SyncJobs
    from rota.app import App
    from rota.model.drift import Drift
    from rota.model.job import JobInfo

Name = Annotated[str, typer.Argument(metavar="JOB", autocompletion=job_names)]
Text = Annotated[str | None, typer.Option(metavar="TEXT")]
commands = typer.Typer(name="jobs", help="Jobs: what applications declare.", no_args_is_help=True)

ORDERS = ("name", "newest", "changed")
HEADERS = (
    "JOB",
    "QUEUE",
    "PRIORITY>",
    "ATTEMPTS>",
    "TIMEOUT>",
    "STARTED BY",
    "EXECUTOR",
    "WORKERS>",
    "DESCRIPTION",
)


@commands.command("list")
@watched
def list_jobs(
    ctx: typer.Context,
    tag: Annotated[str | None, typer.Option(metavar="TAG")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    metadata: Metadata = None,
    enabled: Annotated[str | None, typer.Option(metavar="true|false")] = None,
    order: Annotated[str, typer.Option(metavar="ORDER", help=", ".join(ORDERS))] = "name",
    system: Annotated[bool, typer.Option("--system", help="With Rota's own ones.")] = False,
    json: Json = False,
) -> None:
    """Every job that some application has registered."""
    wanted: Any = {
        "tag": tag,
        "queue": queue,
        "metadata": values.pairs(metadata, "--metadata"),
        "enabled": values.boolean(enabled, "--enabled"),
        "order": values.choice(order, ORDERS, "--order"),
        "system": system,
    }
    with administer(ctx) as app:
        found = app.jobs.sync.list(**wanted)
    if json:
        print_json(found)
    elif found:
        table(HEADERS, [_row(job) for job in found])
    else:
        remark("no jobs; they are registered when an application that declares them starts")


def _row(job: JobInfo) -> tuple[object, ...]:
    return (
        job.name, job.queue, job.priority, job.max_attempts, _timeout(job),
        ", ".join(job.strategies), job.executor, job.workers, f"{_state(job)}{job.description}",
    )  # fmt: skip


def _state(job: JobInfo) -> str:
    """What keeps it from running, before anything else is said of it."""
    if job.deleted_from_code_at is not None:
        return "(deleted from code) "
    return "" if job.is_enabled else "(disabled) "


def _timeout(job: JobInfo) -> str:
    return "" if job.timeout_seconds is None else f"{job.timeout_seconds:g} s"


@commands.command("show")
@watched
def show(
    ctx: typer.Context,
    name: Name,
    json: Json = False,
) -> None:
    """One job: its settings and the payload it takes."""
    with administer(ctx) as app:
        found = app.jobs.sync.get(name)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    facts(_facts(found, now))
    heading("payload schema")
    block(json_module.dumps(found.payload_schema, indent=2, ensure_ascii=False))


def _facts(job: JobInfo, now: datetime) -> list[tuple[str, object]]:
    return [
        ("job", job.name),
        ("description", job.description),
        ("started", ", ".join(job.strategies)),
        ("events", ", ".join(job.events)),
        ("log level", job.log_level),
        ("retention", ", ".join(f"{key} {it}" for key, it in (job.retention or {}).items())),
        ("queue", job.queue),
        ("priority", job.priority),
        ("max attempts", job.max_attempts),
        ("timeout", _timeout(job) or "none"),
        ("backoff", compact(job.backoff) if job.backoff else "default"),
        ("executor", job.executor),
        ("tags", ", ".join(job.tags)),
        ("metadata", compact(job.metadata) if job.metadata else ""),
        ("default payload", compact(job.default_payload) if job.default_payload else ""),
        ("enabled", "yes" if job.is_enabled else "no"),
        ("changed here", "; ".join(_edits(job, now))),
        ("application", job.application),
        ("source", job.source),
        ("deleted", times.both(job.deleted_from_code_at, now)),
        ("live workers", job.workers),
        ("registered", times.both(job.created_at, now)),
        ("changed", times.both(job.updated_at, now) if job.updated_at != job.created_at else ""),
        ("version", job.version),
    ]


def _edits(job: JobInfo, now: datetime) -> list[str]:
    from datetime import datetime

    return [
        f"{field} by {mark['by']} {times.ago(datetime.fromisoformat(mark['at']), now)}"
        for field, mark in sorted(job.edited.items())
    ]


@commands.command("update")
def update(
    ctx: typer.Context,
    name: Name,
    description: Text = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    priority: Annotated[int | None, typer.Option(metavar="0-9", help="Lower runs first.")] = None,
    max_attempts: Annotated[int | None, typer.Option(metavar="N")] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help=f"{values.DURATION}, or none.")
    ] = None,
    backoff: Annotated[
        str | None, typer.Option(metavar="KIND|JSON", help="fixed, linear, exponential, or JSON.")
    ] = None,
    tags: Annotated[
        str | None, typer.Option(metavar="A,B", help="Instead of those it has.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help="Instead of what it has.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Default payload; @file, - for stdin, or none."),
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="A,B", help="Events that start it, instead of those.")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Store lines of this level or worse; or none."),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(metavar="days=30,…|JSON|none", help="What is kept, instead of what it says."),
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Let the code decide again.")
    ] = None,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Change settings of a job. The next attempt uses them; the code no longer overwrites them."""
    given: dict[str, Any] = {
        "description": description,
        "queue": queue,
        "priority": priority,
        "max_attempts": max_attempts,
        "backoff": values.backoff(backoff),
        "tags": values.names(tags),
        "metadata": values.payload(metadata, "--metadata"),
        "payload": None if payload == "none" else values.payload(payload, "--payload"),
        "events": values.names(events),
    }
    changes: JobChanges = {key: it for key, it in given.items() if it is not None}  # type: ignore[assignment]
    if timeout is not None:
        changes["timeout"] = None if timeout == "none" else values.seconds(timeout, "--timeout")
    if payload == "none":
        changes["payload"] = None
    if log_level is not None:
        changes["log_level"] = None if log_level == "none" else log_level
    if retention is not None:
        changes["retention"] = _retention(retention)
    if not changes and not reset:
        raise typer.BadParameter("nothing to change is given")
    with administer(ctx) as app:
        jobs = app.jobs.by(actor()).sync
        found = jobs.update(name, reset=reset or (), version=version, reason=reason, **changes)
    if json:
        print_json(found)
    else:
        say(f'job "{name}" updated')


def _retention(text: str) -> dict[str, Any] | None:
    """`days=30,failed_days=90`, or JSON, or none."""
    if text == "none":
        return None
    if text.lstrip().startswith(("{", "@", "-")):
        return values.payload(text, "--retention")
    found: dict[str, Any] = {}
    for part in values.names(text) or []:
        name, _, number = part.partition("=")
        if not number.isdigit():
            values.refuse("--retention", f"{part!r} is no number; write days=30,failed_days=90")
        found[name] = int(number)
    return found


@commands.command("enable")
def enable(ctx: typer.Context, name: Name, reason: Reason = None, json: Json = False) -> None:
    """Let the runs of a job start again, and its schedules."""
    with administer(ctx) as app:
        app.jobs.by(actor()).sync.enable(name, reason)
    tell(json, f'job "{name}" enabled', job=name, action="enabled")


@commands.command("disable")
def disable(ctx: typer.Context, name: Name, reason: Reason = None, json: Json = False) -> None:
    """Let the runs of a job wait, and its schedules skip. What runs, runs on."""
    with administer(ctx) as app:
        app.jobs.by(actor()).sync.disable(name, reason)
    tell(json, f'job "{name}" disabled', job=name, action="disabled")


@commands.command("delete")
def delete(
    ctx: typer.Context,
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="Delete its schedules too.")] = False,
    cancel_open: Annotated[
        bool, typer.Option("--cancel-open", help="Cancel its runs that have not ended.")
    ] = False,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Remove a job that no code declares any more. What it did stays in history and audit."""
    with administer(ctx) as app:
        cancelled = app.jobs.by(actor()).sync.delete(
            name, cascade=cascade, cancel_open=cancel_open, version=version, reason=reason
        )
    text = f'job "{name}" deleted' + (f", {cancelled} runs cancelled" if cancel_open else "")
    tell(json, text, job=name, action="deleted", cancelled_runs=cancelled)


# Code and database.

WORDS = {
    "new": "new: will be added",
    "follows": "will follow the code",
    "kept": "kept",
    "gone": "gone from the code",
    "revived": "back in the code",
    "deleted": "deleted by an operator, stays so",
    "taken": "another schedule has the name",
}


def _declared(ctx: typer.Context, app: App) -> SyncJobs:
    """The application is loaded but not opened: looking must not register anything."""
    loaded = session(ctx).load().app
    jobs = app.jobs.by(actor()).of(loaded.registry, loaded.config)
    return jobs.sync


@commands.command("plan")
def plan(ctx: typer.Context, json: Json = False) -> None:
    """Where the code of the application and the database differ, and who changed it."""
    with administer(ctx) as app:
        found = _declared(ctx, app).plan()
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        headers = ("JOB", "WHAT", "FIELD", "CODE", "DATABASE", "", "BY")
        table(headers, [_drift(one, now) for one in found])
    else:
        remark("code and database say the same")


def _drift(one: Drift, now: datetime) -> tuple[object, ...]:
    what = "job" if one.kind == "job" else f"schedule {one.name}"
    by = f"{one.changed_by} {times.ago(one.changed_at, now)}" if one.changed_by else ""
    is_field = one.field is not None
    code, stored = (compact(one.code), compact(one.stored)) if is_field else ("", "")
    return (one.job, what, one.field or "", code, stored, WORDS[one.change], by)


@commands.command("sync")
def sync(
    ctx: typer.Context,
    force: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Overwrite what operators changed; again for more."),
    ] = None,
    json: Json = False,
) -> None:
    """Write what the application's code says, and mark jobs that it no longer declares."""
    with administer(ctx) as app:
        written = _declared(ctx, app).sync_definitions(force=force or ())
    if json:
        print_json(written)
    else:
        say(
            f"{len(written)} written: {', '.join(sorted(written))}"
            if written
            else "nothing to write"
        )
