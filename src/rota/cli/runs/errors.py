"""`rota errors`: the list, and one error group."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import add_actions
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.names import job_names, one_of
from rota.cli.terminal.output import block, facts, heading, print_json, remark, table
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.model.error_group import ErrorFacet, ErrorGroup

commands = typer.Typer(name="errors", help=DECLARED["errors"], no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Error group ID.")]
STANDINGS = ("new", "back", "known", "handled", "quiet")
ORDERS = ("last", "most", "first")
HEADERS = ("GROUP", "STANDING", "FAILURES>", "RUNS>", "FIRST", "LAST", "JOB", "ERROR")


@commands.command("list")
@watched
def list_errors(
    ctx: typer.Context,
    standing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STANDING",
            help=f"Standing: {', '.join(STANDINGS)}; repeat, or use a,b.",
            autocompletion=one_of(STANDINGS),
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Errors of this job.", autocompletion=job_names),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text in the type, message or location.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="2h|TIME", help="Errors since this time; counts start there too."),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Include errors of Rota's own jobs.")
    ] = False,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "last",
    limit: paging.Limit = 50,
    after: paging.After = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List failures grouped by cause, most recent first. Groups share type, location and message;
    counts cover the last day, or the time since `--since`."""
    asked: Any = {
        "standings": _standings(standing),
        "job": job,
        "text": text,
        "since": values.since(since, "--since"),
        "system": system,
        "order": paging.order(order, ORDERS),
        "cursor": paging.read(f"errors {order}", after),
    }
    with administer(ctx) as app:
        page = app.errors.sync.page(limit=limit, **asked)
        now = app.clock.sync.now()
    if json:
        print_json(page.groups)
        paging.more(len(page.groups), page.cursor, f"errors {order}")
        return
    if not page.groups:
        remark("no errors match" if standing or job or text or since else "nothing has failed")
        return
    table(HEADERS, [_row(group, now, absolute) for group in page.groups])
    note = ", ".join(f"{count:,} {name}" for name, count in sorted(page.standings.items()))
    remark(
        f"{note}; {plural(page.failures, 'failure')} since {times.shown(page.since, now, absolute)}"
    )
    paging.more(len(page.groups), page.cursor, f"errors {order}")


def _standings(given: list[str] | None) -> tuple[str, ...] | None:
    found = [name for text in given or [] for name in values.names(text) or []]
    for name in found:
        values.choice(name, STANDINGS, "--standing")
    return tuple(found) or None


def _row(it: ErrorGroup, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    jobs = it.jobs[0] if len(it.jobs) == 1 else f"{len(it.jobs)} jobs"
    return (
        it.id,
        it.standing,
        f"{it.recent_failures:,}",
        f"{it.recent_runs:,}",
        times.shown(it.first_seen_at, now, is_absolute),
        times.shown(it.last_seen_at, now, is_absolute),
        jobs,
        f"{it.error_type}: {it.error}",
    )


@commands.command("show")
@watched
def show(ctx: typer.Context, group: Group, json: Json = False) -> None:
    """Show one error group with its last traceback. Also shows its location, first occurrence and
    frequency, and what the affected runs have in common."""
    with administer(ctx) as app:
        found = app.errors.sync.get(group)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    it = found.group
    facts(
        [
            ("group", it.id),
            ("error", f"{it.error_type}: {it.error}"),
            ("place", f"{it.place}, in {it.function}" if it.place else "not in your code"),
            ("jobs", ", ".join(it.jobs)),
            ("standing", _standing(it, now)),
            ("first", times.both(it.first_seen_at, now)),
            ("last", f"{times.both(it.last_seen_at, now)}, run {it.last_run_id}"),
            ("failures", f"{it.failures:,}, {it.recent_failures:,} in the last day"),
            ("failed runs", f"{it.runs:,}, {it.recent_runs:,} in the last day"),
            *((trait.name, _shares(trait, found.looked_at)) for trait in _telling(found.traits)),
        ]
    )
    if found.traceback:
        heading("last traceback")
        block(found.traceback)
    remark(f"{shown('runs', 'list', '--group', str(it.id))} lists its runs")


def _telling(traits: list[ErrorFacet]) -> list[ErrorFacet]:
    """Leave out the job if all runs have the same one, which is shown already."""
    return [trait for trait in traits if trait.name != "job" or len(trait.shares) > 1]


def _shares(trait: ErrorFacet, looked_at: int) -> str:
    shares = ", ".join(f"{share.value} ({share.runs:,})" for share in trait.shares)
    return f"{shares} of {looked_at:,}"


def _standing(it: ErrorGroup, now: datetime) -> str:
    if it.handled_at is None:
        return it.standing
    why = f": {it.handled_reason}" if it.handled_reason else ""
    return f"{it.standing}; handled {times.both(it.handled_at, now)} by {it.handled_by}{why}"


add_actions(commands, "errors", None)
