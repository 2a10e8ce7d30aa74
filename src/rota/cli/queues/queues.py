"""`rota queues`: what waits and runs in them; pause and resume; how many may wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.each import each
from rota.cli.terminal.flags import Absolute, Json, Reason, Version
from rota.cli.terminal.names import queue_names
from rota.cli.terminal.output import facts, heading, print_json, remark, say, switched, table
from rota.cli.terminal.watch import watched
from rota.model.words import plural

if TYPE_CHECKING:
    from rota.admin.queues.queues import QueueSettings
    from rota.app import App
    from rota.model.queue import JobDepth, QueueInfo

commands = typer.Typer(
    name="queues",
    help="Queues: named groups of runs that workers claim from.",
    no_args_is_help=True,
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Queue name.", autocompletion=queue_names)
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="One or more queues.", autocompletion=queue_names),
]
ORDERS = ("name", "longest", "oldest")
COUNTS = ("QUEUED>", "HELD>", "OLDEST>", "SCHEDULED>", "BLOCKED>", "RUNNING>")
# Younger counts are as good as new to somebody who reads them.
_OLD_SECONDS = 1.0
WHEN_FULL = ("refuse", "drop_lowest")


@commands.command("list")
@watched
def list_queues(
    ctx: typer.Context,
    paused: Annotated[bool, typer.Option("--paused", help="Only paused queues.")] = False,
    order: Annotated[str, paging.sorted_by(*ORDERS)] = "name",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List queues with their backlog. Shows runs waiting and running, the age of the oldest, and
    whether each is paused."""
    with administer(ctx) as app:
        found = app.queues.sync.list(order=paging.order(order, ORDERS), paused=paused or None)
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        headers = ("QUEUE", "STATE", *COUNTS, "WORKERS>", "NOTE")
        table(headers, [_row(queue, now, absolute) for queue in found])
        remark(_total(found))
    else:
        remark("no queues are paused" if paused else "no queues; jobs and runs create them")


def _row(queue: QueueInfo, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    state = "paused" if queue.is_paused else "open"
    news = _news(queue, lambda at: times.shown(at, now, is_absolute))
    return (queue.name, state, *_counts(queue), queue.workers, news)


def _counts(it: QueueInfo | JobDepth) -> tuple[object, ...]:
    oldest = "" if it.oldest_seconds is None else times.span(it.oldest_seconds)
    counts = (f"{count:,}" for count in (it.scheduled, it.blocked, it.running))
    return f"{it.queued:,}", f"{it.held:,}" if it.held else "", oldest, *counts


def _news(queue: QueueInfo, shown: Callable[[datetime | None], str]) -> str:
    if queue.is_paused:
        reason = f": {queue.pause_reason}" if queue.pause_reason else ""
        end = f"; resumes {shown(queue.paused_until)}" if queue.paused_until else ""
        return f"paused {shown(queue.paused_at)} by {queue.paused_by}{reason}{end}"
    if queue.queued and not queue.workers:
        return "no live worker serves it"
    return f"full: limit of {queue.max_waiting:,} waiting runs" if queue.full_since else ""


def _total(found: list[QueueInfo]) -> str:
    queued, running = sum(it.queued for it in found), sum(it.running for it in found)
    return f"{plural(len(found), 'queue')}, {queued:,} queued, {running:,} running{counted(found)}"


def counted(found: list[QueueInfo]) -> str:
    """Of very many runs the count is not made anew each time: say so."""
    oldest = max((it.counted_seconds for it in found), default=0)
    return f"; counted {times.span(oldest)} ago" if oldest >= _OLD_SECONDS else ""


@commands.command("show")
@watched
def show(ctx: typer.Context, name: Name, json: Json = False) -> None:
    """Show one queue with its runs by job."""
    with administer(ctx) as app:
        found = app.queues.sync.get(name)
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    queue = found.queue
    news = _news(queue, lambda at: times.both(at, now))
    oldest = "" if queue.oldest_seconds is None else times.span(queue.oldest_seconds)
    facts(
        [
            ("queue", queue.name),
            ("state", news or "open"),
            ("queued", f"{queue.queued:,}{counted([queue])}"),
            ("held", f"{queue.held:,}" if queue.held else ""),
            ("oldest", oldest),
            ("scheduled", f"{queue.scheduled:,}"),
            ("blocked", f"{queue.blocked:,}"),
            ("running", f"{queue.running:,}"),
            ("workers", str(queue.workers)),
            ("cap", _cap(queue, now)),
        ]
    )
    if found.jobs:
        heading("by job")
        table(("JOB", *COUNTS), [(job.job, *_counts(job)) for job in found.jobs])


def _cap(queue: QueueInfo, now: datetime) -> str:
    if queue.max_waiting is None:
        return ""
    then = (
        "more are refused"
        if queue.when_full == "refuse"
        else "those with the lowest priority are dropped"
    )
    full = f"; full since {times.both(queue.full_since, now)}" if queue.full_since else ""
    edited = "; changed by an operator" if queue.is_edited else ""
    return f"at most {plural(queue.max_waiting, 'waiting run')}, {then}{full}{edited}"


@commands.command("set")
def set_queue(
    ctx: typer.Context,
    name: Name,
    max_waiting: Annotated[
        str | None, typer.Option(metavar="N|none", help="Maximum number of waiting runs, or none.")
    ] = None,
    when_full: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION", help=f"Policy when the queue is full: {', '.join(WHEN_FULL)}."
        ),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Reset to the values in the code.")
    ] = False,
    reason: Reason = None,
    version: Version = None,
    json: Json = False,
) -> None:
    """Set the maximum number of waiting runs of a queue. Also sets what happens when it is full."""
    settings: QueueSettings = {}
    if max_waiting is not None:
        settings["max_waiting"] = values.number_or_none(max_waiting, "--max-waiting")
    if when_full is not None:
        settings["when_full"] = values.choice(when_full, WHEN_FULL, "--when-full")
    if reset == bool(settings):
        values.refuse("--reset", "pass either --reset or settings to change")
    with administer(ctx) as app:
        face = app.queues.by(actor()).sync
        if reset:
            found = face.reset(name, reason)
        else:
            found = face.set(name, reason, version=version, **settings)
        now = app.clock.sync.now()
    if json:
        print_json(found)
    else:
        say(f'queue "{name}": {_cap(found, now) or "no limit on waiting runs"}')


@commands.command("pause")
def pause(
    ctx: typer.Context,
    names: Names,
    reason: Reason = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            "--for",
            metavar="2h|TIME",
            help="Resume automatically after this duration or at this time.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Pause queues: nothing is claimed. Running attempts continue; new runs wait."""
    end = values.since(until, "--until")
    return each(ctx, "queue", names, _pausing(reason, end), is_json=json)


def _pausing(reason: str | None, until: datetime | timedelta | None) -> Callable[[App, str], str]:
    def one(app: App, name: str) -> str:
        known = [queue.name for queue in app.queues.sync.list()]
        is_changed = app.queues.by(actor()).sync.pause(name, reason, until)
        if name not in known and not name.startswith("rota."):
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            remark(f'hint: no job or run uses queue "{name}" yet{meant}')
        end = app.queues.sync.get(name).queue.paused_until
        said = switched("paused", is_changed)
        return f"{said} until {times.absolute(end) if end else 'it is resumed'}"

    return one


@commands.command("resume")
def resume(ctx: typer.Context, names: Names, reason: Reason = None, json: Json = False) -> int:
    """Resume paused queues."""

    def one(app: App, name: str) -> str:
        is_changed = app.queues.by(actor()).sync.resume(name, reason)
        return "resumed" if is_changed else "was not paused"

    return each(ctx, "queue", names, one, is_json=json)
