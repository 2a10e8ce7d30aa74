"""`rota workers`: who runs jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import times
from rota.cli.flags import Absolute, Json
from rota.cli.output import print_json, remark, table
from rota.cli.session import administer
from rota.cli.watch import watched

if TYPE_CHECKING:
    from rota.model.worker import WorkerInfo

commands = typer.Typer(name="workers", help="Workers: who runs jobs.", no_args_is_help=True)

HEADERS = (
    "ID>",
    "STATE",
    "HOST",
    "PID>",
    "QUEUES",
    "RUNNING>",
    "HEARTBEAT",
    "STARTED",
    "JOBS>",
    "",
)


@commands.command("list")
@watched
def list_workers(
    ctx: typer.Context,
    include_gone: Annotated[
        bool, typer.Option("--all", help="With those that have left in order.")
    ] = False,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Live, stopping and lost workers, the newest first."""
    with administer(ctx) as app:
        found = app.workers.sync.list(include_gone=include_gone)
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        table(HEADERS, [_row(worker, now, absolute) for worker in found])
    else:
        remark("no workers; `rota worker` starts one")


def _row(worker: WorkerInfo, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    beat = f"{times.span(worker.heartbeat_seconds)} ago"
    return (
        worker.id, state(worker), worker.host, worker.pid, ", ".join(worker.queues) or "all",
        f"{worker.running}/{worker.concurrency}",
        times.absolute(worker.heartbeat_at) if is_absolute else beat,
        times.shown(worker.started_at, now, is_absolute), len(worker.jobs), _news(worker),
    )  # fmt: skip


def state(worker: WorkerInfo) -> str:
    if worker.is_silent:
        return "silent"
    return "stuck" if worker.is_stuck and worker.state == "live" else worker.state


def _news(worker: WorkerInfo) -> str:
    if worker.is_silent:
        return "lease ran out; no other worker is there to rescue its runs"
    if worker.is_stuck and worker.state == "live":
        return "its event loop stands still"
    return f"{worker.claimed} more claimed" if worker.claimed else ""
