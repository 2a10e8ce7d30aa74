"""The four charts of a trend: throughput, failures, pick-up time, oldest waiting. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from rota.model.formatting import duration, number, percent
from rota.model.trend import Trend
from rota.web.axes import Unit
from rota.web.plots import Plot, PlotLine

# The ranges of a page's charts: word and hours.
SPANS = {"1h": ("1 h", 1), "6h": ("6 h", 6), "24h": ("24 h", 24), "7d": ("7 d", 168)}
_YESTERDAY = "this time yesterday"
# Title, description, unit.
_HEADS: dict[str, tuple[str, str, Unit]] = {
    "throughput": ("Throughput", "successful attempts per minute", "rate"),
    "failures": ("Failures", "attempts that failed, timed out or were lost", "rate"),
    "pickup": ("Pick-up time", "from when a run could start until a worker claimed it", "ms"),
    "oldest": ("Oldest waiting", "of the runs that are due", "s"),
}


def plots_of(trend: Trend, zone: tzinfo) -> list[Plot]:
    return [make(trend, zone) for make in (throughput, failures, pickups, oldest)]


def throughput(trend: Trend, zone: tzinfo) -> Plot:
    now, was = _mean(trend, trend.now.succeeded), _mean(trend, trend.before.succeeded)
    lines = [
        PlotLine("succeeded", "area", "succeeded", trend.per_minute(trend.now.succeeded)),
        _yesterday(_rates(trend, trend.before.succeeded)),
    ]
    value = f"{number(_round(now))} per minute"
    return _plot("throughput", trend, zone, lines, value, _beside(number(_round(was)), was))


def failures(trend: Trend, zone: tzinfo) -> Plot:
    bad, was = sum(trend.now.failed), sum(trend.before.failed)
    lines = [
        PlotLine("failed", "bars", "failed", trend.per_minute(trend.now.failed)),
        _yesterday(_rates(trend, trend.before.failed)),
    ]
    share = bad / (bad + sum(trend.now.succeeded)) if bad else 0.0
    value = f"{number(bad)}, {percent(share)} of all" if bad else "none"
    beside = _beside(number(was), was + sum(trend.before.succeeded))
    return _plot("failures", trend, zone, lines, value, beside, is_bad=bad > was)


def pickups(trend: Trend, zone: tzinfo) -> Plot:
    now, before = trend.now, trend.before
    lines = [
        PlotLine("p99", "line", "ink", now.pickup_p99_ms),
        PlotLine("p95", "line", "ink2", now.pickup_p95_ms),
        PlotLine("p50", "line", "ink3", now.pickup_p50_ms),
        PlotLine("p95 yesterday", "line", "ink3 dash", before.pickup_p95_ms),
    ]
    last, was = _last(now.pickup_p95_ms), _last(before.pickup_p95_ms)
    value = "no runs were picked up" if last is None else f"{_ms(last)} p95"
    return _plot("pickup", trend, zone, lines, value, _beside(_ms(was), was))


def oldest(trend: Trend, zone: tzinfo) -> Plot:
    """The last step shows the present value."""
    now = list(trend.now.oldest_seconds)
    if now:
        now[-1] = max(now[-1] or 0.0, trend.oldest_seconds or 0.0)
    lines = [PlotLine("oldest", "area", "queued", now), _yesterday(trend.before.oldest_seconds)]
    where = f" in {trend.oldest_queue}" if trend.oldest_queue else ""
    value = "no runs are waiting"
    if trend.oldest_seconds is not None:
        value = f"{duration(trend.oldest_seconds)}{where}"
    was = _last(trend.before.oldest_seconds)
    return _plot("oldest", trend, zone, lines, value, _beside(duration(was), was))


def _plot(
    name: str,
    trend: Trend,
    zone: tzinfo,
    lines: list[PlotLine],
    value: str,
    beside: str,
    *,
    is_bad: bool = False,
) -> Plot:
    title, about, unit = _HEADS[name]
    return Plot(
        id=name,
        title=title,
        about=about,
        unit=unit,
        since=trend.since,
        step_seconds=trend.step_seconds,
        lines=lines,
        value=value,
        beside=beside,
        zone=zone,
        is_bad=is_bad,
    )


def _yesterday(values: Sequence[float | None]) -> PlotLine:
    return PlotLine("yesterday", "line", "ink3 dash", values)


def _beside(text: str, known: float | None) -> str:
    return f"{text} {_YESTERDAY}" if known else f"none {_YESTERDAY}"


def _rates(trend: Trend, counts: Sequence[int]) -> list[float]:
    return [count / (trend.step_seconds / 60) for count in counts]


def _mean(trend: Trend, counts: Sequence[int]) -> float:
    seconds = trend.step_seconds * (trend.steps - 1) + trend.last_seconds
    return sum(counts) / (seconds / 60) if seconds else 0.0


def _round(value: float) -> float:
    return round(value) if value >= 10 else round(value, 1)


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _ms(value: float | None) -> str:
    return duration(None if value is None else value / 1000)
