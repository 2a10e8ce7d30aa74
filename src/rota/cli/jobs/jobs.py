"""`rota jobs`: the declared jobs, and actions of operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.names import job_names
from rota.cli.terminal.output import (
    as_pairs,
    compact,
    facts,
    heading,
    json_block,
    listed,
    print_json,
    remark,
    table,
)
from rota.cli.terminal.watch import watched
from rota.model.event import delivery_words

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.job import JobInfo

Name = Annotated[str, typer.Argument(metavar="NAME", help="Job name.", autocompletion=job_names)]
commands = typer.Typer(name="jobs", help=DECLARED["jobs"], no_args_is_help=True)
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


def _list(ctx: typer.Context, app: App, found: list[JobInfo], given: dict[str, Any]) -> None:
    if found:
        table(HEADERS, [_row(job) for job in found])
    elif given.keys() - {"order"}:
        remark("no jobs match")
    else:
        remark("no jobs; an application registers its jobs when its worker starts")


commands.command("list")(watched(list_command("jobs", _list)))


def _row(job: JobInfo) -> tuple[object, ...]:
    return (
        job.name,
        job.queue,
        job.priority,
        job.max_attempts,
        _timeout(job),
        _strategies(job),
        job.executor,
        job.workers,
        f"{_state(job)}{job.description}",
    )


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


add_actions(commands, "jobs", job_names)
