"""`rota stats`: present counts, and statistics of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rota.cli.reads import read_command
from rota.cli.terminal import times
from rota.cli.terminal.output import facts, heading, remark, table
from rota.cli.terminal.watch import watched
from rota.model.formatting import number, percent, plural, rate
from rota.operations.reports.stats import StatsCommands

if TYPE_CHECKING:
    from datetime import datetime

    from rota.app import App
    from rota.model.stats import Activity, QueueDepth, Stats

QUEUES = ("QUEUE", "QUEUED>", "HELD>", "OLDEST>", "SCHEDULED>", "BLOCKED>", "RUNNING>")
_DONE = ("ATTEMPTS>", "RATE>", "FAILED>", "P50>", "P95>", "P99>", "LONGEST>")
# A narrow terminal shows the newest steps; --json has them all.
_STEPS_SHOWN = 30


def _show(ctx: typer.Context, app: App, found: Stats) -> None:
    is_absolute = ctx.params["absolute"]
    states, total = found.states, found.total
    facts(
        [
            (
                "open",
                f"{states.queued:,} queued, {states.running:,} running, "
                f"{states.scheduled:,} scheduled, {states.blocked:,} blocked",
            ),
            (
                "ended so far",
                f"{states.succeeded:,} succeeded, {states.failed:,} failed, "
                f"{states.cancelled:,} cancelled",
            ),
            ("oldest queued", _age(found.oldest_queued_seconds)),
            ("since", times.shown(found.since, found.at, is_absolute)),
            ("attempts", f"{total.attempts:,}, {rate(total.per_second)}"),
            ("failed", _share(total)),
            (
                "p50, p95, p99",
                ", ".join(map(times.took, (total.p50_ms, total.p95_ms, total.p99_ms)))
                if total.attempts
                else "",
            ),
        ]
    )
    if found.queues:
        heading("Queues")
        table(QUEUES, map(_queue, found.queues))
    if found.jobs:
        heading("Jobs")
        table(("JOB", *_DONE), [(job.job, *_done(job.activity)) for job in found.jobs])
    if ctx.params["step_seconds"] is not None and found.series:
        _show_steps(found, is_absolute)
    counted = found.counted_at
    if (found.at - counted).total_seconds() > 1:
        remark(f"open runs were counted {times.ago(counted, found.at)}")


def _show_steps(found: Stats, is_absolute: bool) -> None:
    heading(f"By interval of {times.span(found.step_seconds)}")
    shown = found.series[-_STEPS_SHOWN:]
    rows = [(_at(step.at, found.at, is_absolute), *_done(step.activity)) for step in shown]
    table(("FROM", *_DONE), rows)
    if len(shown) < len(found.series):
        left = plural(len(found.series) - len(shown), "earlier interval")
        remark(f"{left} not shown; --json lists all")


def _at(at: datetime, now: datetime, is_absolute: bool) -> str:
    return times.shown(at, now, is_absolute)


def _queue(one: QueueDepth) -> tuple[object, ...]:
    counts = (number(count) for count in (one.scheduled, one.blocked, one.running))
    held = number(one.held) if one.held else ""
    return one.queue, number(one.queued), held, _age(one.oldest_seconds), *counts


def _done(one: Activity) -> tuple[object, ...]:
    return (
        number(one.attempts),
        rate(one.per_second),
        _share(one),
        *(times.took(it) for it in (one.p50_ms, one.p95_ms, one.p99_ms, one.longest_ms)),
    )


def _share(one: Activity) -> str:
    return "" if one.failure_rate is None else f"{one.bad:,} ({percent(one.failure_rate)})"


def _age(seconds: float | None) -> str:
    return "" if seconds is None else times.span(seconds)


stats = watched(
    read_command(
        "stats", StatsCommands.get, _show, note="Intervals are printed if --step is given."
    )
)
