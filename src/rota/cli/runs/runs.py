"""`rota runs`: list, show and enqueue; actions on many runs are in `actions`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rota.cli.program import DECLARED
from rota.cli.reports.reasons import print_reasons
from rota.cli.runs import filters as flags
from rota.cli.runs import tables as run_tables
from rota.cli.runs.filters import filtered
from rota.cli.session import actor, administer, closing, session
from rota.cli.terminal import paging, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.names import job_names
from rota.cli.terminal.output import heading, print_json, remark
from rota.cli.terminal.watch import watched
from rota.cli.workers.worker import AppOption

commands = typer.Typer(name="runs", help=DECLARED["runs"], no_args_is_help=True)


@commands.command("list")
@watched
@filtered
def list_runs(
    ctx: typer.Context,
    wanted: flags.Wanted,
    order: Annotated[str, paging.sorted_by(*paging.NEWEST)] = "newest",
    limit: paging.Limit = 50,
    after: paging.AfterId = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    more: Any = {"order": paging.order(order, paging.NEWEST), **wanted}
    with administer(ctx) as app:
        page = app.runs.sync.page(limit=limit, cursor=after, seconds=10, **more)
        now = app.clock.sync.now()
    if json:
        print_json(page.runs)
    else:
        run_tables.print_list(page.runs, now, absolute)
    run_tables.print_more(page)


@commands.command("show")
@watched
def show(
    ctx: typer.Context,
    run_id: Annotated[int, typer.Argument(metavar="ID", help="Run ID.")],
    lines: Annotated[
        int,
        typer.Option(
            "--logs", min=0, max=10_000, metavar="N", help="Number of recent log lines to show."
        ),
    ] = 20,
    json: Json = False,
) -> None:
    """Show one run with its attempts, errors and last log lines."""
    with administer(ctx) as app:
        found = app.runs.sync.details(run_id, log_lines=lines)
        is_open = found.run.finished_at is None and not json
        reasons = app.why.sync(run_id, kind="run") if is_open else None
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    run_tables.print_details(found, now)
    if reasons is not None:
        heading("why")
        print_reasons(reasons)


@commands.command("enqueue")
def enqueue(
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Job name.", autocompletion=job_names)],
    payload: Annotated[
        str | None,
        typer.Argument(metavar="JSON|@FILE|-", help='Arguments, e.g. {"user_id": 7}.'),
    ] = None,
    app: AppOption = None,
    queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Queue. Default: the job's.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, metavar="0..9", help="Priority; lower runs first.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Delay before the run may start.")
    ] = None,
    run_at: Annotated[str | None, typer.Option(metavar="TIME", help="Earliest start time.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Idempotency key: an unfinished run with this key is returned instead.",
        ),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tenant of the run. Default: the job's.")
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(min=1, max=100, metavar="N", help="Maximum attempts. Default: the job's."),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Tag; repeatable.")] = None,
    expires_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Cancel the run if it has not started by this time."),
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Cancel the run if it has not started this long after it may."
        ),
    ] = None,
    attempt_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Timeout of each attempt.")
    ] = None,
    backoff: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|JSON", help="Retry backoff: fixed, linear, exponential or JSON."
        ),
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE", help="Metadata, as a JSON object.")
    ] = None,
    on_conflict: Annotated[
        str | None,
        typer.Option(
            metavar="return|raise|replace|debounce|throttle",
            help="What to do if an unfinished run holds the key.",
        ),
    ] = None,
    key_keep: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION|forever", help="How long the key stays reserved after the run ends."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the run to finish and print its result.")
    ] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="With --wait: maximum time to wait.")
    ] = None,
    json: Json = False,
) -> int:
    """Enqueue a run. With an application, the payload is validated against the job's types.
    Without a payload, the run gets the job's default payload.
    """
    if delay is not None and run_at is not None:
        values.refuse("--run-at", "cannot be combined with --delay")
    if expires_at is not None and expires_in is not None:
        values.refuse("--expires-at", "cannot be combined with --expires-in")
    if timeout is not None and not wait:
        values.refuse("--timeout", "requires --wait")
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
        "expires_in": values.seconds(expires_in, "--expires-in"),
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
            run_tables.print_enqueued(run, json)
            return 0
        remark(f"{run_tables.enqueued(run)}, waiting for it to finish")
        ended = used.runs.sync.wait(run.id, seconds)
    return run_tables.print_ended(ended, json)
