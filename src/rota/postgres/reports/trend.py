"""Reads statistics over time, and those of the previous day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.errors import UnknownJob
from rota.model.histogram import quantiles
from rota.model.states import FAILED_ATTEMPT_STATES
from rota.model.stats import QueueDepth
from rota.model.trend import DAY, Curve, Steps, Trend, steps_of
from rota.postgres.plans import Execute, Plan, Rows
from rota.postgres.reports.stats import read_depths

_SHARES = (0.99, 0.95, 0.5)


def read_trend(*, job: str | None, queue: str | None, span: timedelta) -> Plan[Trend]:
    clock = (yield Execute("stats/clock", {"job": job}))[0]
    if job is not None and not clock["is_job"]:
        raise UnknownJob(f'no job is named "{job}"')
    at = clock["at"].astimezone(UTC)
    steps = steps_of(span, at)
    filters = {"job": job, "queue": queue}
    depths = yield from read_depths(filters)
    now = yield from _read_curve(steps, filters)
    before = yield from _read_curve(steps.earlier(DAY), filters)
    oldest = _oldest(depths.queues)
    last = (at - steps.until).total_seconds() + steps.seconds
    return Trend(
        at=at,
        since=steps.since,
        step_seconds=steps.seconds,
        steps=steps.count,
        last_seconds=max(0.0, min(last, float(steps.seconds))),
        now=now,
        before=before,
        queued=sum(it.queued for it in depths.queues),
        running=sum(it.running for it in depths.queues),
        oldest_seconds=oldest.oldest_seconds if oldest else None,
        oldest_queue=oldest.queue if oldest else None,
    )


def _oldest(queues: Sequence[QueueDepth]) -> QueueDepth | None:
    waiting = [it for it in queues if it.oldest_seconds is not None]
    return max(waiting, key=lambda it: it.oldest_seconds or 0, default=None)


def _read_curve(steps: Steps, filters: Mapping[str, str | None]) -> Plan[Curve]:
    asked: dict[str, Any] = {"since": steps.since, "until": steps.until, "step": steps.seconds}
    _, *ended = yield Execute(
        "stats/series", asked | {"unit": steps.unit, **filters}, is_large=True
    )
    samples: Rows = []
    if filters["job"] is None:  # single jobs are not sampled
        samples = yield Execute(
            "stats/samples", asked | {"queue": filters["queue"] or ""}, is_large=True
        )
    return _curve(steps, ended, samples)


def _curve(steps: Steps, ended: Rows, samples: Rows) -> Curve:
    done, stood = _placed(steps, ended), _placed(steps, samples)
    took = [_quantiles(row, "attempts", _longest(row)) for row in done]
    waited = [_quantiles(row, "pickups", math.inf) for row in stood]
    return Curve(
        succeeded=[row["succeeded"] if row else 0 for row in done],
        failed=[sum(row[name] for name in FAILED_ATTEMPT_STATES) if row else 0 for row in done],
        p99_ms=[shares[0] for shares in took],
        p95_ms=[shares[1] for shares in took],
        p50_ms=[shares[2] for shares in took],
        pickup_p99_ms=[shares[0] for shares in waited],
        pickup_p95_ms=[shares[1] for shares in waited],
        pickup_p50_ms=[shares[2] for shares in waited],
        queued=[row["queued"] if row else None for row in stood],
        running=[row["running"] if row else None for row in stood],
        oldest_seconds=[(row["oldest_seconds"] or 0.0) if row else None for row in stood],
    )


def _placed(steps: Steps, rows: Rows) -> list[dict[str, Any] | None]:
    """Place each row at its step; None if a step has no row."""
    places: list[dict[str, Any] | None] = [None] * steps.count
    for row in rows:
        at: datetime = row["at"]
        if 0 <= (place := steps.place(at)) < steps.count:
            places[place] = row
    return places


def _longest(row: Mapping[str, Any] | None) -> float:
    return row["longest_ms"] / 1000 if row else 0.0


def _quantiles(row: Mapping[str, Any] | None, count: str, longest: float) -> list[float | None]:
    if not row or not row[count]:
        return [None, None, None]
    found = quantiles(row["histogram"], row[count], _SHARES, longest)
    return [None if it is None else it * 1000 for it in found]
