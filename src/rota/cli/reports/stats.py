"""`rota stats`: present counts, and statistics of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import administer
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.output import facts, heading, print_json, remark, table
from rota.cli.terminal.watch import watched
from rota.model.words import number, percent, plural, rate

if TYPE_CHECKING:
    from datetime import datetime

    from rota.model.stats import Activity, QueueDepth, Stats

QUEUES = ("QUEUE", "QUEUED>", "HELD>", "OLDEST>", "SCHEDULED>", "BLOCKED>", "RUNNING>")
_DONE = ("ATTEMPTS>", "RATE>", "FAILED>", "P50>", "P95>", "P99>", "LONGEST>")
# A narrow terminal shows the newest steps; --json has them all.
_STEPS_SHOWN = 30


@watched
def stats(
    ctx: typer.Context,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Only this job.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this queue.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"Start of the period: {values.DURATION} ago, or a time. Default: 1h.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the period. Default: now.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Also show figures per interval: 1m, 5m, 1h, 1d."),
    ] = None,
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Show run counts, throughput, failures and durations. Counts are by state and queue; the rest
    is in total and by job."""
    start, end = values.since(since, "--since"), values.instant(until, "--until")
    seconds = values.seconds(step, "--step")
    if seconds is not None and seconds != int(seconds):
        values.refuse("--step", f"{step!r} is not a whole number of minutes")
    with administer(ctx) as app:
        found = app.stats.sync.get(
            job=job,
            queue=queue,
            since=start,
            until=end,
            step=None if seconds is None else int(seconds),
        )
    if json:
        print_json(found)
        return
    _show(found, absolute, with_steps=step is not None)


def _show(found: Stats, is_absolute: bool, *, with_steps: bool) -> None:
    states, total = found.states, found.total
    facts(
        [
            ("open", f"{states.queued:,} queued, {states.running:,} running, "
                     f"{states.scheduled:,} scheduled, {states.blocked:,} blocked"),
            ("ended so far", f"{states.succeeded:,} succeeded, {states.failed:,} failed, "
                             f"{states.cancelled:,} cancelled"),
            ("oldest queued", _age(found.oldest_queued_seconds)),
            ("since", times.shown(found.since, found.at, is_absolute)),
            ("attempts", f"{total.attempts:,}, {rate(total.per_second)}"),
            ("failed", _share(total)),
            ("p50, p95, p99", ", ".join(map(times.took, (total.p50_ms, total.p95_ms, total.p99_ms)))
                              if total.attempts else ""),
        ]
    )  # fmt: skip
    if found.queues:
        heading("Queues")
        table(QUEUES, map(_queue, found.queues))
    if found.jobs:
        heading("Jobs")
        table(("JOB", *_DONE), [(job.job, *_done(job.activity)) for job in found.jobs])
    if with_steps and found.series:
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
        number(one.attempts), rate(one.per_second), _share(one),
        *(times.took(it) for it in (one.p50_ms, one.p95_ms, one.p99_ms, one.longest_ms)),
    )  # fmt: skip


def _share(one: Activity) -> str:
    return "" if one.failure_rate is None else f"{one.bad:,} ({percent(one.failure_rate)})"


def _age(seconds: float | None) -> str:
    return "" if seconds is None else times.span(seconds)
