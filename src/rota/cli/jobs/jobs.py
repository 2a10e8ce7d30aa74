"""`rota jobs`: the declared jobs, and actions of operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Json, Metadata, Reason, Version
from rota.cli.terminal.names import job_names, queue_names
from rota.cli.terminal.output import (
    as_pairs,
    compact,
    facts,
    heading,
    json_block,
    listed,
    print_json,
    remark,
    switched,
    table,
    tell,
)
from rota.cli.terminal.watch import watched
from rota.model.event import delivery_words
from rota.model.words import plural

if TYPE_CHECKING:
    from datetime import datetime

    from rota.model.job import JobInfo

Name = Annotated[str, typer.Argument(metavar="NAME", help="Job name.", autocompletion=job_names)]
commands = typer.Typer(
    name="jobs", help="Jobs: functions that applications declare.", no_args_is_help=True
)

ORDERS = ("name", "newest", "changed")
HEADERS = (
    "NAME",
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
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in the name or description.")
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Jobs with this tag.")] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Jobs whose runs go to this queue.", autocompletion=queue_names
        ),
    ] = None,
    metadata: Metadata = None,
    enabled: Annotated[
        str | None, typer.Option(metavar="true|false", help="Only enabled or only disabled jobs.")
    ] = None,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "name",
    system: Annotated[bool, typer.Option("--system", help="Include Rota's own jobs.")] = False,
    json: Json = False,
) -> None:
    """List all registered jobs."""
    wanted: Any = {
        "text": text,
        "tag": tag,
        "queue": queue,
        "metadata": values.pairs(metadata, "--metadata"),
        "enabled": values.boolean(enabled, "--enabled"),
        "order": paging.order(order, ORDERS),
        "system": system,
    }
    with administer(ctx) as app:
        found = app.jobs.sync.list(**wanted)
    if json:
        print_json(found)
    elif found:
        table(HEADERS, [_row(job) for job in found])
    elif text or tag or queue or metadata or enabled:
        remark("no jobs match")
    else:
        remark("no jobs; an application registers its jobs when its worker starts")


def _row(job: JobInfo) -> tuple[object, ...]:
    return (
        job.name, job.queue, job.priority, job.max_attempts, _timeout(job),
        _strategies(job), job.executor, job.workers, f"{_state(job)}{job.description}",
    )  # fmt: skip


def _strategies(job: JobInfo) -> str:
    return listed(job.strategies).replace("_", " ")


def _state(job: JobInfo) -> str:
    """Return first what keeps the job from running."""
    if job.deleted_from_code_at is not None:
        return "(deleted from code) "
    return "" if job.is_enabled else "(disabled) "


def _timeout(job: JobInfo) -> str:
    return "" if job.timeout_seconds is None else times.took(job.timeout_seconds * 1000)


@commands.command("show")
@watched
def show(
    ctx: typer.Context,
    name: Name,
    json: Json = False,
) -> None:
    """Show one job: its settings and payload schema."""
    with administer(ctx) as app:
        found = app.jobs.sync.get(name)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    facts(_facts(found, now))
    heading("payload schema")
    json_block(found.payload_schema)


def _facts(job: JobInfo, now: datetime) -> list[tuple[str, object]]:
    return [
        ("job", job.name),
        ("description", job.description),
        ("started by", _strategies(job)),
        ("events", listed(job.events)),
        ("event filters", compact(job.event_filters) if job.event_filters else ""),
        ("event delivery", delivery_words(job.event_delivery)),
        ("log level", job.log_level),
        ("retention", ", ".join(f"{key} {it}" for key, it in as_pairs(job.retention).items())),
        ("queue", job.queue),
        ("priority", job.priority),
        ("max attempts", job.max_attempts),
        ("timeout", _timeout(job) or "none"),
        ("backoff", compact(job.backoff) if job.backoff else "default"),
        ("executor", job.executor),
        ("function", job.function_name),
        ("runs as", (job.run_as or "the workers' role") if job.function_name else ""),
        ("transaction", _transaction(job)),
        ("tags", listed(job.tags)),
        ("metadata", compact(job.metadata) if job.metadata else ""),
        ("default payload", compact(job.default_payload) if job.default_payload else ""),
        ("delay", _span(job.delay_seconds)),
        ("expires in", _span(job.expires_in_seconds)),
        ("key", job.key),
        ("tenant", job.tenant),
        ("enabled", "yes" if job.is_enabled else "no"),
        ("overrides", "; ".join(_edits(job, now))),
        ("application", job.application),
        ("source", job.source),
        ("deleted", times.both(job.deleted_from_code_at, now)),
        ("definition hash", job.definition_hash),
        ("belongs to Rota", "yes" if job.is_system else ""),
        ("live workers", job.workers),
        ("last run", times.both(job.last_run_at, now)),
        ("next run", times.both(job.next_run_at, now)),
        ("registered", times.both(job.created_at, now)),
        ("changed", times.both(job.updated_at, now) if job.updated_at != job.created_at else ""),
        ("version", job.version),
    ]


def _transaction(job: JobInfo) -> str:
    """Return whether the function of a SQL job and the end of its run share a transaction."""
    if not job.function_name:
        return ""
    return {
        "whole": "whole: one transaction with the end of the run",
        "none": "none: the procedure commits by itself",
    }.get(job.transaction_mode or "", job.transaction_mode or "")


def _span(seconds: float | None) -> str:
    return "" if seconds is None else times.span(seconds)


def _edits(job: JobInfo, now: datetime) -> list[str]:
    from rota.model.job_edits import edits_of

    return [
        f"{edit.field} by {edit.by or 'unknown'} {times.ago(edit.at, now)}".rstrip()
        for edit in edits_of(job)
    ]


@commands.command("enable")
def enable(ctx: typer.Context, name: Name, reason: Reason = None, json: Json = False) -> None:
    """Enable a job: its runs and schedules start again."""
    with administer(ctx) as app:
        is_changed = app.jobs.by(actor()).sync.enable(name, reason)
    text = f'job "{name}" {switched("enabled", is_changed)}'
    tell(json, text, job=name, action="enabled", is_changed=is_changed)


@commands.command("disable")
def disable(ctx: typer.Context, name: Name, reason: Reason = None, json: Json = False) -> None:
    """Disable a job: its runs wait and its schedules skip. Running attempts continue."""
    with administer(ctx) as app:
        is_changed = app.jobs.by(actor()).sync.disable(name, reason)
    text = f'job "{name}" {switched("disabled", is_changed)}'
    tell(json, text, job=name, action="disabled", is_changed=is_changed)


@commands.command("rename")
def rename(
    ctx: typer.Context,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="The new name.")],
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Rename a job with its overrides, schedules, limits and unfinished runs. Enqueues under the
    old name continue to work, and its history is found under both names."""
    with administer(ctx) as app:
        moved = app.jobs.by(actor()).sync.rename(name, new_name, reason=reason)
    text = f'job "{name}" renamed to "{new_name}", {plural(moved, "unfinished run")} moved'
    tell(json, text, job=new_name, action="renamed", old_name=name, moved_runs=moved)


@commands.command("delete")
def delete(
    ctx: typer.Context,
    name: Name,
    cascade: Annotated[bool, typer.Option("--cascade", help="Also delete its schedules.")] = False,
    cancel_open: Annotated[
        bool, typer.Option("--cancel-open", help="Cancel its unfinished runs.")
    ] = False,
    version: Version = None,
    reason: Reason = None,
    json: Json = False,
) -> None:
    """Delete a job; its history and audit entries are kept. Code that still declares it registers
    it again at its next start."""
    with administer(ctx) as app:
        cancelled = app.jobs.by(actor()).sync.delete(
            name, cascade=cascade, cancel_open=cancel_open, version=version, reason=reason
        )
    text = f'job "{name}" deleted' + (
        f", {plural(cancelled, 'run')} cancelled" if cancel_open else ""
    )
    tell(json, text, job=name, action="deleted", cancelled_runs=cancelled)
