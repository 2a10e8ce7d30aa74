"""The charts of one job or queue: ends, durations, failure rate. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo

from rota.model.formatting import duration, number, percent, plural
from rota.model.stats import Activity, Stats
from rota.web.axes import Unit
from rota.web.plots import Plot, PlotLine

# The ranges of a page's charts: word and hours.
SPANS = {"1h": ("1 h", 1), "24h": ("24 h", 24), "7d": ("7 d", 168), "30d": ("30 d", 720)}


def plots_of(stats: Stats, zone: tzinfo) -> list[Plot]:
    return [ended(stats, zone), durations(stats, zone), failures(stats, zone)]


def ended(stats: Stats, zone: tzinfo) -> Plot:
    total = stats.total
    lines = [
        PlotLine("succeeded", "area", "succeeded", _values(stats, lambda it: it.succeeded)),
        PlotLine("failed", "bars", "failed", _values(stats, lambda it: it.bad)),
    ]
    about = f"attempts per {duration(stats.step_seconds)}"
    beside = f"{number(total.bad)} failed" if total.bad else "none failed"
    value = plural(total.attempts, "attempt")
    return _plot("ended", "Ended", about, "count", stats, zone, lines, value, beside)


def durations(stats: Stats, zone: tzinfo) -> Plot:
    total = stats.total
    lines = [
        PlotLine("p99", "line", "ink", _values(stats, lambda it: it.p99_ms)),
        PlotLine("p95", "line", "ink2", _values(stats, lambda it: it.p95_ms)),
        PlotLine("p50", "line", "ink3", _values(stats, lambda it: it.p50_ms)),
    ]
    value = "no attempts" if total.p50_ms is None else f"p50 {_ms(total.p50_ms)}"
    beside = "" if total.p95_ms is None else f"p95 {_ms(total.p95_ms)} · p99 {_ms(total.p99_ms)}"
    about = "duration of attempts"
    return _plot("durations", "Duration", about, "ms", stats, zone, lines, value, beside)


def failures(stats: Stats, zone: tzinfo) -> Plot:
    rate = stats.total.failure_rate
    values = _values(stats, lambda it: None if it.failure_rate is None else it.failure_rate * 100)
    lines = [PlotLine("failed", "bars", "failed", values)]
    value = "no attempts" if rate is None else f"{percent(rate)} failed"
    beside = f"{number(stats.total.bad)} of {number(stats.total.bad + stats.total.succeeded)}"
    about = "percent of attempts"
    return _plot("rate", "Failure rate", about, "percent", stats, zone, lines, value, beside)


def _values(stats: Stats, read: Callable[[Activity], float | None]) -> list[float | None]:
    """Return a value per step; without ends a count is 0 and a duration is None."""
    known = {step.at: step.activity for step in stats.series}
    nothing = Activity(0, 0, 0, 0, 0, 0, 0, 0.0, None, None, None, None, None, None)
    return [read(known.get(at, nothing)) for at in _times(stats)]


def _times(stats: Stats) -> list[datetime]:
    first = stats.series[0].at if stats.series else stats.since
    step = stats.step_seconds
    behind = int((first - stats.since).total_seconds() // step)
    start = first.timestamp() - behind * step
    count = max(1, int((stats.until.timestamp() - start) // step) + 1)
    return [datetime.fromtimestamp(start + n * step, first.tzinfo) for n in range(count)]


def _ms(value: float | None) -> str:
    return duration(None if value is None else value / 1000)


def _plot(
    name: str,
    title: str,
    about: str,
    unit: Unit,
    stats: Stats,
    zone: tzinfo,
    lines: list[PlotLine],
    value: str,
    beside: str,
) -> Plot:
    return Plot(
        id=name,
        title=title,
        about=about,
        unit=unit,
        since=_times(stats)[0],
        step_seconds=stats.step_seconds,
        lines=lines,
        value=value,
        beside=beside,
        zone=zone,
    )
