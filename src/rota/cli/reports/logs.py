"""`rota logs`: search, follow, and read the log lines of handlers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Json, Zone
from rota.cli.terminal.names import job_names, queue_names, tenant_names
from rota.cli.terminal.output import as_pairs, compact, one_line_json, print_json, remark
from rota.model.log import LEVELS
from rota.model.printable import entry, one_line

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.log import LogLine, LogPage

commands = typer.Typer(name="logs", help="Logs written by job handlers.", no_args_is_help=True)

Job = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Lines of this job.", autocompletion=job_names),
]
Run = Annotated[int | None, typer.Option(metavar="ID", help="Lines of this run.")]
Attempt = Annotated[int | None, typer.Option(metavar="N", min=1, help="Lines of this attempt.")]
Level = Annotated[
    str | None, typer.Option(metavar="LEVEL", help=f"Minimum level: {', '.join(LEVELS)}.")
]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Lines of this tenant.", autocompletion=tenant_names),
]
Queue = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Lines of runs in this queue.", autocompletion=queue_names),
]
Worker = Annotated[
    int | None, typer.Option(metavar="ID", help="Lines written by this worker.", min=1)
]
STYLES = {
    "critical": typer.colors.RED,
    "error": typer.colors.RED,
    "warning": typer.colors.YELLOW,
    "debug": typer.colors.BRIGHT_BLACK,
}


@commands.command("search")
def search(
    ctx: typer.Context,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help='Search terms: word, "a phrase", -exclude, field:value, prefix*. All must match.',
        ),
    ] = "",
    job: Job = None,
    run: Run = None,
    attempt: Attempt = None,
    level: Level = None,
    tenant: Tenant = None,
    queue: Queue = None,
    worker: Worker = None,
    since: Annotated[
        str | None, typer.Option(metavar="2h|TIME", help="Lines since this time, or this long ago.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="2h|TIME", help="Lines before this time, or this long ago."),
    ] = None,
    limit: paging.Limit = 100,
    after: paging.After = None,
    patience: Annotated[
        str, typer.Option(metavar="DURATION", help="Time limit of the search.")
    ] = "10s",
    display_timezone: Zone = None,
    json: Json = False,
) -> None:
    """Search log lines, newest first."""
    wanted: Any = _filters(job, run, attempt, level, tenant, queue, worker) | {
        "since": values.since(since, "--since"),
        "until": values.since(until, "--until"),
        "limit": limit,
        "cursor": after,
        "budget": values.seconds(patience, "--patience"),
    }
    with administer(ctx) as app:
        page = app.logs.sync.search(text, **wanted)
    if json:
        print_json(page)
        return
    for line in page.lines:
        _print(line)
    _print_end(page)


@commands.command("tail")
def tail(
    ctx: typer.Context,
    job: Job = None,
    run: Run = None,
    level: Level = None,
    tenant: Tenant = None,
    queue: Queue = None,
    worker: Worker = None,
    grep: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show only lines that match this search.")
    ] = None,
    lines: Annotated[
        int,
        typer.Option(
            "--lines",
            "-n",
            min=0,
            max=1000,
            metavar="N",
            help="Number of recent lines to start with.",
        ),
    ] = 10,
    display_timezone: Zone = None,
    json: Json = False,
) -> None:
    """Follow new log lines until Ctrl-C. With --json, one document per line."""
    filters: Any = _filters(job, run, None, level, tenant, queue, worker)
    with administer(ctx) as app, one_line_json(json):
        for line in app.logs.sync.tail(grep or "", lines=lines, **filters):
            if json:
                print_json(line)
            else:
                _print(line)


@commands.command("show")
def show(
    ctx: typer.Context,
    run: Annotated[int, typer.Argument(metavar="RUN", help="Run ID.")],
    attempt: Attempt = None,
    display_timezone: Zone = None,
    json: Json = False,
) -> None:
    """Show all log lines of a run, oldest first."""
    with administer(ctx) as app:
        found = _all_of_run(app, run, attempt)
        if json:
            print_json(list(found))
            return
        is_empty = True
        for line in found:
            is_empty = False
            _print(line)
    if is_empty:
        remark("no log lines")


def _filters(
    job: str | None,
    run: int | None,
    attempt: int | None,
    level: str | None,
    tenant: str | None,
    queue: str | None,
    worker: int | None,
) -> dict[str, Any]:
    values.choice(level, tuple(LEVELS), "--level")
    return {
        "job": job,
        "run_id": run,
        "attempt": attempt,
        "level": level,
        "tenant": tenant,
        "queue": queue,
        "worker": worker,
    }


def _all_of_run(app: App, run_id: int, attempt: int | None) -> Iterator[LogLine]:
    """Read page by page: all lines together may exceed the memory."""
    cursor = None
    while True:
        page = app.logs.sync.show(run_id, attempt=attempt, limit=1000, cursor=cursor)
        yield from page.lines
        cursor = page.cursor
        if cursor is None:
            return


def _print(line: LogLine) -> None:
    level = typer.style(f"{one_line(line.level):<8}", fg=STYLES.get(line.level))
    job = one_line(f"{line.job} {line.run_id}.{line.attempt}")
    typer.echo(f"{times.absolute(line.at)}  {level}  {job}  {entry(line_text(line), '    ')}")


def line_text(line: LogLine) -> str:
    """Return the message and its fields."""
    fields = [f"{one_line(name)}={compact(value)}" for name, value in as_pairs(line.fields).items()]
    return "  ".join([line.message, *([" ".join(fields)] if fields else [])])


def _print_end(page: LogPage) -> None:
    if not page.lines:
        remark("no log lines")
    if page.cursor is not None and page.searched_back_to is not None:
        back = times.absolute(page.searched_back_to)
        remark(f"searched back to {back}; to continue the search: --after {page.cursor}")
