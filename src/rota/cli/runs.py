"""`rota runs`: list, show, cancel, retry and enqueue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import run_pages, values
from rota.cli.flags import Absolute, Json, Reason
from rota.cli.output import print_json, remark, say
from rota.cli.session import actor, administer, closing, session
from rota.cli.worker import AppOption

if TYPE_CHECKING:
    from rota.app import App

commands = typer.Typer(name="runs", help="Runs: what was asked for.", no_args_is_help=True)

STATES = ("blocked", "scheduled", "queued", "running", "succeeded", "failed", "cancelled")
RunIds = Annotated[list[int], typer.Argument(metavar="ID", help="One or more runs.")]


@commands.command("list")
def list_runs(
    ctx: typer.Context,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help=f"{', '.join(STATES)}; may be repeated, or a,b."),
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="2h|TIME", help="Created since then: a duration or a time."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Older than this run: the next page.")
    ] = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Runs, the newest first."""
    wanted: Any = {
        "states": _states(state),
        "job": job,
        "queue": queue,
        "tag": tag,
        "tenant": tenant,
        "key": key,
        "since": values.since(since, "--since"),
        "before_id": before,
        "limit": limit,
    }
    with administer(ctx) as app:
        found = app.runs.sync.list(**wanted)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    run_pages.print_list(found, now, absolute)
    if len(found) == limit:
        remark(f"{limit} shown; for older ones add --before {found[-1].id}")


@commands.command("show")
def show(
    ctx: typer.Context,
    run_id: Annotated[int, typer.Argument(metavar="ID")],
    lines: Annotated[
        int, typer.Option("--logs", min=0, max=10_000, metavar="N", help="Log lines, the last N.")
    ] = 20,
    json: Json = False,
) -> None:
    """One run: its payload and result, its attempts with their errors, its last log lines."""
    with administer(ctx) as app:
        found = app.runs.sync.details(run_id, log_lines=lines)
        now = app.clock.sync.now()
    if json:
        print_json(found)
    else:
        run_pages.print_details(found, now)


@commands.command("cancel")
def cancel(ctx: typer.Context, ids: RunIds, reason: Reason = None) -> int:
    """Cancel runs: waiting ones at once, running ones by asking their worker."""

    def one(app: App, run_id: int) -> str:
        answer = app.runs.by(actor()).sync.cancel(run_id, reason)
        return "cancelled" if answer == "cancelled" else "is running: its worker was asked to stop"

    return _each(ctx, ids, one)


@commands.command("retry")
def retry(
    ctx: typer.Context,
    ids: RunIds,
    payload: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE|-", help="Run with this payload instead."),
    ] = None,
    reason: Reason = None,
) -> int:
    """Put failed or cancelled runs back to work, each under its id."""
    edited = values.payload(payload, "--payload")

    def one(app: App, run_id: int) -> str:
        app.runs.by(actor()).sync.retry(run_id, reason, payload=edited)
        return "will run again"

    return _each(ctx, ids, one)


@commands.command("enqueue")
def enqueue(
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB")],
    payload: Annotated[
        str | None,
        typer.Argument(metavar="JSON|@FILE|-", help='Arguments, like {"user_id": 7}.'),
    ] = None,
    app: AppOption = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, metavar="0..9", help="Lower runs first.")
    ] = None,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Not before then.")] = None,
    run_at: Annotated[str | None, typer.Option(metavar="TIME", help="Not before then.")] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="If an unfinished run holds it, that run is the answer."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, max=100, metavar="N")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="May be repeated.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; print its result.")
    ] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --wait: the longest wait.")
    ] = None,
    json: Json = False,
) -> int:
    """Ask for a run. With an application, the payload is checked against the job's types."""
    if delay is not None and run_at is not None:
        values.refuse("--run-at", "excludes --delay: both say when")
    if timeout is not None and not wait:
        values.refuse("--timeout", "belongs to --wait")
    arguments = values.payload(payload, "PAYLOAD")
    seconds = values.seconds(timeout, "--timeout")
    options: Any = {
        "queue": queue,
        "priority": priority,
        "delay": values.seconds(delay, "--delay"),
        "run_at": values.instant(run_at, "--run-at"),
        "key": key,
        "tenant": tenant,
        "max_attempts": max_attempts,
        "tags": tag or None,
    }
    found = session(ctx).find(app)
    with closing(found.app) if found else administer(ctx) as used:
        run = used.runs.by(actor()).sync.enqueue(job, arguments, **options)
        if not wait:
            run_pages.print_enqueued(run, json)
            return 0
        remark(f"{run_pages.enqueued(run)}, waiting for its end")
        ended = used.runs.sync.wait(run.id, seconds)
    return run_pages.print_ended(ended, json)


def _states(given: list[str] | None) -> list[str] | None:
    states = [state for text in given or [] for state in values.names(text) or []]
    for state in states:
        if state not in STATES:
            values.refuse("--state", f"{state!r} is no state; there are {', '.join(STATES)}")
    return states or None


def _each(ctx: typer.Context, ids: list[int], action: Callable[[App, int], str]) -> int:
    """All of them, even if some fail; 1 if any did."""
    from rota.cli.main import fail
    from rota.errors import DatabaseError, RotaError, SchemaError

    code = 0
    with administer(ctx) as app:
        for run_id in ids:
            try:
                say(f"run {run_id} {action(app, run_id)}")
            except (DatabaseError, SchemaError):
                raise
            except RotaError as error:
                code = max(code, fail(error))
    return code
