"""`rota trend`: activity by interval, compared with the day before."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from rota.cli.reads import read_command
from rota.cli.terminal import times
from rota.cli.terminal.output import facts, heading, remark, table
from rota.cli.terminal.watch import watched
from rota.model.formatting import number, plural
from rota.operations.reports.stats import StatsCommands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.trend import Curve, Trend

HEADERS = (
    "FROM",
    "ENDED>",
    "DAY BEFORE>",
    "FAILED>",
    "DAY BEFORE>",
    "P95>",
    "DAY BEFORE>",
    "PICK-UP P95>",
    "QUEUED>",
    "OLDEST>",
)
# A narrow terminal shows the newest steps; --json has them all.
_STEPS_SHOWN = 30


def _show(ctx: typer.Context, app: App, found: Trend) -> None:
    is_absolute = ctx.params["absolute"]
    oldest = found.oldest_seconds
    where = f" in {found.oldest_queue}" if found.oldest_queue else ""
    facts(
        [
            ("open", f"{found.queued:,} queued, {found.running:,} running"),
            ("oldest queued", "" if oldest is None else f"{times.span(oldest)}{where}"),
            ("ended", _total(found.now)),
            ("the day before", _total(found.before)),
        ]
    )
    heading(f"By interval of {times.span(found.step_seconds)}")
    first = max(0, found.steps - _STEPS_SHOWN)
    table(HEADERS, [_row(found, step, is_absolute) for step in range(first, found.steps)])
    if first:
        remark(f"{plural(first, 'earlier interval')} not shown; --json lists all")


def _total(curve: Curve) -> str:
    return f"{sum(curve.succeeded):,} succeeded, {sum(curve.failed):,} failed"


def _row(found: Trend, step: int, is_absolute: bool) -> tuple[object, ...]:
    now, before = found.now, found.before
    begin = found.since + timedelta(seconds=step * found.step_seconds)
    queued, oldest = now.queued[step], now.oldest_seconds[step]
    return (
        times.shown(begin, found.at, is_absolute),
        number(now.succeeded[step] + now.failed[step]),
        number(before.succeeded[step] + before.failed[step]),
        number(now.failed[step]),
        number(before.failed[step]),
        times.took(now.p95_ms[step]),
        times.took(before.p95_ms[step]),
        times.took(now.pickup_p95_ms[step]),
        number(queued),
        "" if oldest is None else times.span(oldest),
    )


trend = watched(read_command("stats", StatsCommands.trend, _show))
