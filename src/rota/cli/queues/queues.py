"""`rota queues`: waiting and running runs; pause and resume; the cap of waiting runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.names import queue_names
from rota.cli.terminal.output import facts, heading, print_json, remark, table
from rota.cli.terminal.watch import watched
from rota.model.fields import facts_of
from rota.model.formatting import plural
from rota.model.queue import QueueSettings

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.queue import JobDepth, QueueInfo

commands = typer.Typer(name="queues", help=DECLARED["queues"], no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Queue name.", autocompletion=queue_names)
]
COUNTS = ("QUEUED>", "HELD>", "OLDEST>", "SCHEDULED>", "BLOCKED>", "RUNNING>")
# Counts younger than this are shown as new.
_OLD_SECONDS = 1.0


def _list(ctx: typer.Context, app: App, found: list[QueueInfo], given: dict[str, Any]) -> None:
    now = app.clock.sync.now()
    if found:
        headers = ("QUEUE", "STATE", *COUNTS, "WORKERS>", "NOTE")
        table(headers, [_row(queue, now, ctx.params["absolute"]) for queue in found])
        remark(_total(found))
    else:
        remark("no queues are paused" if given else "no queues; jobs and runs create them")


commands.command("list")(watched(list_command("queues", _list)))


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
    queued, running = sum(queue.queued for queue in found), sum(queue.running for queue in found)
    return f"{plural(len(found), 'queue')}, {queued:,} queued, {running:,} running{counted(found)}"


def counted(found: list[QueueInfo]) -> str:
    """Return the age of the counts: those of very many runs are not renewed each time."""
    oldest = max((queue.counted_seconds for queue in found), default=0)
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
            *((label.lower(), text) for label, text in facts_of(queue, QueueSettings)),
            ("full since", times.both(queue.full_since, now) if queue.full_since else ""),
            ("edited", "by an operator; reset restores the code" if queue.is_edited else ""),
        ]
    )
    if found.jobs:
        heading("by job")
        table(("JOB", *COUNTS), [(job.job, *_counts(job)) for job in found.jobs])


add_actions(commands, "queues", queue_names)
