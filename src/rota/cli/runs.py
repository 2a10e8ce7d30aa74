"""`rota runs`: list, show and enqueue; what is done to many is in run_actions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli import run_filters as flags
from rota.cli import run_pages, values
from rota.cli.flags import Absolute, Json
from rota.cli.names import job_names
from rota.cli.output import heading, print_json, remark
from rota.cli.run_filters import filtered
from rota.cli.session import actor, administer, closing, session
from rota.cli.watch import watched
from rota.cli.why import print_reasons
from rota.cli.worker import AppOption

commands = typer.Typer(name="runs", help="Runs: what was asked for.", no_args_is_help=True)


@commands.command("list")
@watched
@filtered
def list_runs(
    ctx: typer.Context,
    wanted: flags.Wanted,
    system: Annotated[
        bool, typer.Option("--system", help="Those of Rota's housekeeping, too.")
    ] = False,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N")] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="ID", help="Beyond this run: the next page.")
    ] = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Runs, the newest first."""
    more: Any = {"system": system, "order": "oldest" if oldest else "newest", **wanted}
    with administer(ctx) as app:
        page = app.runs.sync.page(limit=limit, cursor=before, seconds=10, **more)
        now = app.clock.sync.now()
    if json:
        print_json(page.runs)
    else:
        run_pages.print_list(page.runs, now, absolute)
    run_pages.print_more(page)


@commands.command("show")
@watched
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
        is_open = found.run.finished_at is None and not json
        reasons = app.why.sync(run_id, kind="run") if is_open else None
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    run_pages.print_details(found, now)
    if reasons is not None:
        heading("why")
        print_reasons(reasons)


@commands.command("enqueue")
def enqueue(
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", autocompletion=job_names)],
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
    expires_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not started by then: cancelled.")
    ] = None,
    attempt_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Of each attempt.")
    ] = None,
    backoff: Annotated[
        str | None, typer.Option(metavar="WORD|JSON", help="fixed, linear, exponential, or JSON.")
    ] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON|@FILE")] = None,
    on_conflict: Annotated[
        str | None,
        typer.Option(
            metavar="return|raise|replace|debounce|throttle",
            help="If an unfinished run holds the key.",
        ),
    ] = None,
    key_keep: Annotated[
        str | None,
        typer.Option(metavar="DURATION|forever", help="How long the key outlives the run."),
    ] = None,
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
        "expires_at": values.instant(expires_at, "--expires-at"),
        "timeout": values.seconds(attempt_timeout, "--attempt-timeout"),
        "backoff": values.backoff(backoff),
        "metadata": values.payload(metadata, "--metadata"),
        "on_conflict": on_conflict,
        "key_keep": values.key_keep(key_keep),
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
