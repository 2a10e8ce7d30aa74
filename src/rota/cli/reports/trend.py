"""`rota trend`: activity by interval, compared with the day before."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.session import administer
from rota.cli.terminal import times, values
from rota.cli.terminal.flags import Absolute, Json
from rota.cli.terminal.output import facts, heading, print_json, remark, table
from rota.cli.terminal.watch import watched
from rota.model.words import number, plural

if TYPE_CHECKING:
    from rota.model.trend import Curve, Trend

SPANS = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}
HEADERS = (
    "FROM", "ENDED>", "DAY BEFORE>", "FAILED>", "DAY BEFORE>", "P95>", "DAY BEFORE>",
    "PICK-UP P95>", "QUEUED>", "OLDEST>",
)  # fmt: skip
# A narrow terminal shows the newest steps; --json has them all.
_STEPS_SHOWN = 30


@watched
def trend(
    ctx: typer.Context,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Only this job.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Only this queue.")] = None,
    span: Annotated[
        str, typer.Option(metavar="SPAN", help=f"How far back: {', '.join(SPANS)}.")
    ] = "1h",
    absolute: Absolute = False,
    json: Json = False,
) -> None:
    """Show throughput, latency and backlog over time. Each interval is compared with the same time
    the day before."""
    hours = SPANS[values.choice(span, tuple(SPANS), "--span")]
    with administer(ctx) as app:
        found = app.stats.sync.trend(job=job, queue=queue, span=timedelta(hours=hours))
    if json:
        print_json(found)
    else:
        _show(found, absolute)


def _show(found: Trend, is_absolute: bool) -> None:
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
        number(now.failed[step]), number(before.failed[step]),
        times.took(now.p95_ms[step]), times.took(before.p95_ms[step]),
        times.took(now.pickup_p95_ms[step]),
        number(queued), "" if oldest is None else times.span(oldest),
    )  # fmt: skip
