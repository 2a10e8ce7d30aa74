"""`rota workers`: list, show, drain, stop and resume workers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

import typer

from rota.cli.session import actor, administer
from rota.cli.terminal import paging, times, values
from rota.cli.terminal.each import each
from rota.cli.terminal.flags import Absolute, Json, Reason
from rota.cli.terminal.output import facts, heading, listed, print_json, remark, switched, table
from rota.cli.terminal.watch import watched
from rota.model.words import plural, size

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.worker import WorkerInfo

commands = typer.Typer(
    name="workers", help="Workers: processes that run jobs.", no_args_is_help=True
)

Id = Annotated[int, typer.Argument(metavar="ID", help="Worker ID.")]
Ids = Annotated[list[int], typer.Argument(metavar="ID", help="One or more worker IDs.")]
STATES = ("live", "draining", "stopping", "silent", "stuck", "failing", "asleep", "lost", "gone")
HEADERS = (
    "ID>", "STATE", "HOST", "PID>", "QUEUES", "RUNNING>", "MEMORY>", "CPU>",
    "HEARTBEAT", "STARTED", "JOBS>",
)  # fmt: skip


@commands.command("list")
@watched
def list_workers(
    ctx: typer.Context,
    include_gone: Annotated[
        bool,
        typer.Option(
            "--all", help="Include workers that shut down, or were lost more than 10 minutes ago."
        ),
    ] = False,
    wanted: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help=f"State: {', '.join(STATES)}.")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Workers on this host.")] = None,
    order: Annotated[str, paging.sorted_by(*paging.NEWEST)] = "newest",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """List live, draining, stopping and lost workers, newest first."""
    with administer(ctx) as app:
        found = app.workers.sync.list(
            include_gone=include_gone,
            status=values.choice(wanted, STATES, "--state"),
            host=host,
            order=paging.order(order, paging.NEWEST),
        )
        now = app.clock.sync.now()
    if json:
        print_json(found)
    elif found:
        code = Code.of(found)
        rows = [(*_row(it, now, absolute), *code.cells(it), news(it)) for it in found]
        table((*HEADERS, *code.headers, "NOTE"), rows)
        slots = sum(worker.concurrency for worker in found if worker.status == "live")
        running = sum(worker.running for worker in found)
        notes = (plural(len(found), "worker"), f"{running:,} running", plural(slots, "slot"))
        remark(", ".join(notes))
    else:
        remark("no workers match" if wanted or host else "no workers; start one with `rota worker`")


def _row(worker: WorkerInfo, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    beat = f"{times.span(worker.heartbeat_seconds)} ago"
    return (
        worker.id, worker.status, worker.host, worker.pid, listed(worker.queues) or "all",
        f"{worker.running}/{worker.concurrency}", memory(worker), processor(worker),
        times.absolute(worker.heartbeat_at) if is_absolute else beat,
        times.shown(worker.started_at, now, is_absolute), len(worker.jobs),
    )  # fmt: skip


class Code(NamedTuple):
    """The columns about code: the application's release, if any worker has one, and Rota's version,
    if versions differ."""

    has_releases: bool
    has_versions: bool

    @classmethod
    def of(cls, found: Collection[WorkerInfo]) -> Self:
        return cls(any(worker.release for worker in found), len({it.version for it in found}) > 1)

    @property
    def headers(self) -> tuple[str, ...]:
        release = ("RELEASE",) if self.has_releases else ()
        return (*release, *(("VERSION",) if self.has_versions else ()))

    def cells(self, worker: WorkerInfo) -> tuple[str, ...]:
        release = (worker.release or "",) if self.has_releases else ()
        return (*release, *((worker.version,) if self.has_versions else ()))


def memory(worker: WorkerInfo) -> str:
    """Return the memory at the last heartbeat."""
    return "" if worker.memory_bytes is None else size(worker.memory_bytes)


def processor(worker: WorkerInfo) -> str:
    """Return the share of one core between the last two heartbeats."""
    return "" if worker.cpu_cores is None else f"{worker.cpu_cores:.0%}"


def news(worker: WorkerInfo) -> str:
    """Return what an operator has to know about the worker besides its state."""
    if worker.status == "silent":
        return "its lease expired, and no other worker is live to rescue its runs"
    if worker.status == "stuck":
        return "its event loop is blocked"
    if worker.status == "failing":
        return f"failing: {worker.trouble}"
    if worker.status == "asleep":
        return (
            f"until {times.absolute(worker.asleep_until)}; SIGUSR1 to process {worker.pid} wakes it"
        )
    notes = [_draining(worker)] if worker.is_draining else []
    if worker.isolating_run is not None:
        notes.append(f"isolating run {worker.isolating_run}")
    if worker.claimed and not worker.is_draining:
        notes.append(f"{worker.claimed} more claimed")
    if worker.is_polling:
        notes.append("polling only: it has no session for notifications")
    return "; ".join(notes)


def _draining(worker: WorkerInfo) -> str:
    then = "then stops" if worker.is_to_stop else "then waits"
    then = "stops at once" if worker.is_to_hurry else then
    heard = then if worker.drain_seen_at else "not yet acknowledged"
    reason = f": {worker.drain_reason}" if worker.drain_reason else ""
    return f"{heard}; by {worker.drain_requested_by}{reason}"


@commands.command("show")
@watched
def show(ctx: typer.Context, worker_id: Id, json: Json = False) -> None:
    """Show one worker: host, queues, attempts and instructions."""
    with administer(ctx) as app:
        found = app.workers.sync.get(worker_id)
        running = app.workers.sync.running(worker_id)
        now = app.clock.sync.now()
    if json:
        print_json({**asdict(found), "runs": running})
        return
    facts(_facts(found, now))
    if running:
        heading("runs")
        rows = [
            (it.id, it.job, it.queue, it.attempt, times.ago(it.started_at, now)) for it in running
        ]
        table(("RUN>", "JOB", "QUEUE", "ATTEMPT>", "STARTED"), rows)


def _facts(worker: WorkerInfo, now: datetime) -> list[tuple[str, object]]:
    beat = f"{times.absolute(worker.heartbeat_at)} ({times.span(worker.heartbeat_seconds)} ago)"
    notes = news(worker)
    return [
        ("worker", worker.id),
        ("state", f"{worker.status}, {notes}" if notes else worker.status),
        ("host", worker.host),
        ("pid", worker.pid),
        ("version", worker.version),
        ("application", worker.application),
        ("release", worker.release),
        ("queues", listed(worker.queues) or "all"),
        ("running", f"{worker.running} of {plural(worker.concurrency, 'slot')}"),
        ("memory", memory(worker)),
        ("processor", _used(worker)),
        ("heartbeat", beat),
        ("lease", times.span(worker.lease_seconds)),
        ("claimed", times.both(worker.claimed_at, now)),
        ("finished", times.both(worker.finished_at, now)),
        ("errors in a row", worker.errors or None),
        ("started", times.both(worker.started_at, now)),
        ("draining since", times.both(worker.drain_requested_at, now)),
        ("ended", times.both(worker.ended_at, now)),
        ("jobs", listed(worker.jobs)),
    ]


def _used(worker: WorkerInfo) -> str:
    if worker.cpu_seconds is None:
        return ""
    now = f"{processor(worker)} of a core, " if worker.cpu_cores is not None else ""
    return f"{now}{times.span(worker.cpu_seconds)} in total"


@commands.command("drain")
def drain(
    ctx: typer.Context,
    ids: Ids,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the worker once its running attempts finish.")
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Drain workers: stop claiming, finish running attempts. They may take as long as they need."""
    word = "draining, then stopping" if stop else "draining"

    def one(app: App, worker_id: int) -> str:
        is_changed = app.workers.by(actor()).sync.drain(worker_id, reason, stop=stop)
        return switched(word, is_changed)

    return each(ctx, "worker", ids, one, is_json=json)


@commands.command("stop")
def stop(
    ctx: typer.Context,
    ids: Ids,
    at_once: Annotated[
        bool,
        typer.Option("--now", help="Interrupt attempts that outlast the shutdown timeout."),
    ] = False,
    reason: Reason = None,
    json: Json = False,
) -> int:
    """Stop workers after their running attempts finish, or now."""
    word = "stopping" if at_once else "draining, then stopping"

    def one(app: App, worker_id: int) -> str:
        is_changed = app.workers.by(actor()).sync.stop(worker_id, reason, at_once=at_once)
        return switched(word, is_changed)

    return each(ctx, "worker", ids, one, is_json=json)


@commands.command("resume")
def resume(ctx: typer.Context, ids: Ids, reason: Reason = None, json: Json = False) -> int:
    """Resume draining workers."""

    def one(app: App, worker_id: int) -> str:
        is_changed = app.workers.by(actor()).sync.resume(worker_id, reason)
        return "resumed" if is_changed else "was not draining"

    return each(ctx, "worker", ids, one, is_json=json)
