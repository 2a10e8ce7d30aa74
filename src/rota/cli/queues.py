"""`rota queues`: list, pause and resume."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import times
from rota.cli.flags import Json, Reason
from rota.cli.output import print_json, remark, say, table
from rota.cli.session import actor, administer
from rota.cli.watch import watched

if TYPE_CHECKING:
    from rota.model.queue import QueueInfo

commands = typer.Typer(name="queues", help="Queues: named lanes.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME")]
HEADERS = (
    "QUEUE", "STATE", "QUEUED>", "HELD>", "OLDEST>", "SCHEDULED>", "BLOCKED>", "RUNNING>",
    "WORKERS>", "",
)  # fmt: skip


@commands.command("list")
@watched
def list_queues(ctx: typer.Context, json: Json = False) -> None:
    """Every queue: what waits and runs in it, for how long, and whether it is paused."""
    with administer(ctx) as app:
        found = app.queues.sync.list()
        now = app.clock.sync.now()
    if json:
        print_json(found)
        return
    if not found:
        remark("no queues")
        return
    table(HEADERS, [_row(queue, _news(queue, times.ago(queue.paused_at, now))) for queue in found])


def _row(queue: QueueInfo, news: str) -> tuple[object, ...]:
    oldest = "" if queue.oldest_seconds is None else times.span(queue.oldest_seconds)
    return (
        queue.name, "paused" if queue.is_paused else "open", queue.queued, queue.held or "", oldest,
        queue.scheduled, queue.blocked, queue.running, queue.workers, news,
    )  # fmt: skip


def _news(queue: QueueInfo, paused_ago: str) -> str:
    if queue.is_paused:
        reason = f": {queue.pause_reason}" if queue.pause_reason else ""
        return f"paused {paused_ago} by {queue.paused_by}{reason}"
    return "no worker serves it" if queue.queued and not queue.workers else ""


@commands.command("pause")
def pause(ctx: typer.Context, name: Name, reason: Reason = None) -> None:
    """Claim nothing of a queue any more. What runs, runs on; what is enqueued, waits."""
    with administer(ctx) as app:
        known = [queue.name for queue in app.queues.sync.list()]
        app.queues.by(actor()).sync.pause(name, reason)
    say(f'queue "{name}" paused')
    if name not in known:
        near = get_close_matches(name, known, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        remark(f'hint: no job or run is in a queue "{name}" so far{meant}')


@commands.command("resume")
def resume(ctx: typer.Context, name: Name, reason: Reason = None) -> None:
    """Claim from a paused queue again."""
    with administer(ctx) as app:
        app.queues.by(actor()).sync.resume(name, reason)
    say(f'queue "{name}" resumed')
