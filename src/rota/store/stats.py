"""Reading figures: what waits, what was done, by job and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.errors import UnknownJob
from rota.model.histogram import quantile
from rota.model.stats import Activity, JobActivity, QueueDepth, StateCounts, Stats, Step
from rota.model.window import Window, bounds, stepped, whole
from rota.store.plans import Ask, Plan

# While a worker lives it counts every few seconds; without one, whoever asks does.
STALE_SECONDS = 15.0
_OUTCOMES = ("attempts", "succeeded", "failed", "timed_out", "snoozed", "cancelled")
_ADDED = (*_OUTCOMES, "duration_ms")


def read_stats(
    *,
    job: str | None,
    queue: str | None,
    since: datetime | timedelta | None,
    until: datetime | None,
    step: int | None,
    most_jobs: int,
) -> Plan[Stats]:
    yield Ask("upkeep/count_depths", {"seconds": STALE_SECONDS})
    clock = (yield Ask("stats/clock", {"job": job}))[0]
    if job is not None and not clock["is_job"]:
        raise UnknownJob(f'no job is named "{job}"')
    now = clock["at"]
    range_ = whole(*bounds(since, until, now))
    window, steps = stepped(range_, step)
    filters = {"job": job, "queue": queue}
    depths = [QueueDepth(**row) for row in (yield Ask("stats/depths", filters))]
    ended = (yield Ask("stats/ended", filters))[0]
    series = yield Ask("stats/series", _range(window) | {"step": steps} | filters)
    days = {"first_day": range_.first_day, "last_day": range_.last_day, "limit": most_jobs}
    jobs = yield Ask("stats/jobs", _range(range_) | days | filters)
    return Stats(
        at=now,
        counted_at=clock["counted_at"],
        since=range_.since,
        until=min(range_.until, now),
        step_seconds=steps,
        states=_states(depths, ended),
        oldest_queued_seconds=_oldest(depths),
        queues=depths,
        total=_activity(_sum(series), range_.elapsed(now)),
        jobs=[JobActivity(row["job"], _activity(row, range_.elapsed(now))) for row in jobs],
        series=[_step(row, window, steps, now) for row in series],
    )


def _step(row: Mapping[str, Any], window: Window, step: int, now: datetime) -> Step:
    at = window.since + timedelta(seconds=row["step"] * step)
    elapsed = min(step, max(1.0, (now - at).total_seconds()))
    return Step(at, _activity(row, elapsed))


def _sum(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The steps as one."""
    if not rows:
        return {}
    found: dict[str, Any] = {name: sum(row[name] for row in rows) for name in _ADDED}
    found["longest_ms"] = max(row["longest_ms"] for row in rows)
    found["buckets"] = [sum(column) for column in zip(*(it["buckets"] for it in rows), strict=True)]
    return found


def _oldest(depths: Sequence[QueueDepth]) -> float | None:
    ages = [it.oldest_seconds for it in depths if it.oldest_seconds is not None]
    return max(ages, default=None)


def _range(window: Window) -> dict[str, Any]:
    return {"since": window.since, "until": window.until, "unit": window.unit}


def _states(depths: Sequence[QueueDepth], ended: Mapping[str, int]) -> StateCounts:
    return StateCounts(
        blocked=sum(it.blocked for it in depths),
        scheduled=sum(it.scheduled for it in depths),
        queued=sum(it.queued for it in depths),
        running=sum(it.running for it in depths),
        **ended,
    )


def _activity(row: Mapping[str, Any], seconds: float) -> Activity:
    counts = {name: row.get(name, 0) for name in _OUTCOMES}
    bad = counts["failed"] + counts["timed_out"]
    judged = bad + counts["succeeded"]
    longest = row.get("longest_ms")
    buckets = row.get("buckets", [])
    p50, p95, p99 = (_milliseconds(buckets, share, longest) for share in (0.5, 0.95, 0.99))
    return Activity(
        **counts,
        per_second=counts["attempts"] / seconds,
        failure_rate=bad / judged if judged else None,
        average_ms=row["duration_ms"] / counts["attempts"] if counts["attempts"] else None,
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        longest_ms=longest,
    )


def _milliseconds(buckets: list[int], share: float, longest_ms: float | None) -> float | None:
    found = quantile(buckets, share, None if longest_ms is None else longest_ms / 1000)
    return None if found is None else found * 1000
