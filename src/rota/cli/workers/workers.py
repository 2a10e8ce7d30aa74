"""`rota workers`: list, show, drain, stop and resume workers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from rota.cli.operations import add_actions, list_command
from rota.cli.program import DECLARED
from rota.cli.session import administer
from rota.cli.terminal import times
from rota.cli.terminal.flags import Json
from rota.cli.terminal.output import facts, heading, listed, print_json, remark, table
from rota.cli.terminal.place import shown
from rota.cli.terminal.watch import watched
from rota.model.formatting import plural, size

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.worker import WorkerInfo

commands = typer.Typer(name="workers", help=DECLARED["workers"], no_args_is_help=True)

Id = Annotated[int, typer.Argument(metavar="ID", help="Worker ID.")]
HEADERS = (
    "ID>",
    "STATE",
    "HOST",
    "PID>",
    "QUEUES",
    "RUNNING>",
    "MEMORY>",
    "CPU>",
    "HEARTBEAT",
    "STARTED",
    "JOBS>",
)


def _list(ctx: typer.Context, app: App, found: list[WorkerInfo], given: dict[str, Any]) -> None:
    if not found:
        empty = f"no workers; start one with {shown('worker')}"
        remark("no workers match" if "status" in given or "host" in given else empty)
        return
    now, code = app.clock.sync.now(), Code.of(found)
    rows = [(*_row(it, now, ctx.params["absolute"]), *code.cells(it), news(it)) for it in found]
    table((*HEADERS, *code.headers, "NOTE"), rows)
    slots = sum(worker.concurrency for worker in found if worker.status == "live")
    running = sum(worker.running for worker in found)
    remark(", ".join((plural(len(found), "worker"), f"{running:,} running", plural(slots, "slot"))))


commands.command("list")(watched(list_command("workers", _list)))


def _row(worker: WorkerInfo, now: datetime, is_absolute: bool) -> tuple[object, ...]:
    beat = f"{times.span(worker.heartbeat_seconds)} ago"
    return (
        worker.id,
        worker.status,
        worker.host,
        worker.pid,
        listed(worker.queues) or "all",
        f"{worker.running}/{worker.concurrency}",
        memory(worker),
        processor(worker),
        times.absolute(worker.heartbeat_at) if is_absolute else beat,
        times.shown(worker.started_at, now, is_absolute),
        len(worker.jobs),
    )


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


add_actions(commands, "workers", None)
