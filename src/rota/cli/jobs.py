"""`rota jobs`: what applications have declared."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import times
from rota.cli.flags import Json
from rota.cli.output import block, compact, facts, heading, print_json, remark, table
from rota.cli.session import administer

if TYPE_CHECKING:
    from datetime import datetime

    from rota.model.job import JobInfo

commands = typer.Typer(name="jobs", help="Jobs: what applications declare.", no_args_is_help=True)

HEADERS = (
    "JOB",
    "QUEUE",
    "PRIORITY>",
    "ATTEMPTS>",
    "TIMEOUT>",
    "EXECUTOR",
    "WORKERS>",
    "DESCRIPTION",
)


@commands.command("list")
def list_jobs(ctx: typer.Context, json: Json = False) -> None:
    """Every job that some application has registered."""
    with administer(ctx) as app:
        found = app.jobs.sync.list()
    if json:
        print_json(found)
    elif found:
        table(HEADERS, [_row(job) for job in found])
    else:
        remark("no jobs; they are registered when an application that declares them starts")


def _row(job: JobInfo) -> tuple[object, ...]:
    return (
        job.name, job.queue, job.priority, job.max_attempts, _timeout(job), job.executor,
        job.workers, job.description,
    )  # fmt: skip


def _timeout(job: JobInfo) -> str:
    return "" if job.timeout_seconds is None else f"{job.timeout_seconds:g} s"


@commands.command("show")
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="JOB")],
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
        ("queue", job.queue),
        ("priority", job.priority),
        ("max attempts", job.max_attempts),
        ("timeout", _timeout(job) or "none"),
        ("backoff", compact(job.backoff) if job.backoff else "default"),
        ("executor", job.executor),
        ("tags", ", ".join(job.tags)),
        ("metadata", compact(job.metadata) if job.metadata else ""),
        ("source", job.source),
        ("live workers", job.workers),
        ("registered", times.both(job.created_at, now)),
        ("changed", times.both(job.updated_at, now) if job.updated_at != job.created_at else ""),
    ]
