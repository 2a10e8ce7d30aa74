"""The events of the live stream: names, topics, and how they follow from comparing two polls.

Counts are summaries: `run.succeeded` contains how many runs of a job in a queue have succeeded
since the previous poll. A single run appears only in the actions of operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rota.model.metrics import Changes

TOPICS = ("runs", "schedules", "queues", "workers", "logs", "stats", "audit")

EVENTS: dict[str, tuple[str, str]] = {
    "run.succeeded": ("runs", "Runs of a job succeeded: `job`, `queue`, `count`."),
    "run.failed": ("runs", "Runs of a job failed permanently: `job`, `queue`, `count`."),
    "run.cancelled": ("runs", "Runs of a job were cancelled: `job`, `queue`, `count`."),
    "attempt.failed": ("runs", "Attempts failed, including final ones: `job`, `queue`, `count`."),
    "attempt.timed_out": ("runs", "Attempts timed out: `job`, `queue`, `count`."),
    "attempt.lost": ("runs", "Attempts were lost with their worker: `job`, `queue`, `count`."),
    "attempt.snoozed": ("runs", "Attempts were snoozed: `job`, `queue`, `count`."),
    "attempt.cancelled": ("runs", "Attempts were cancelled: `job`, `queue`, `count`."),
    "occurrence.decided": (
        "schedules",
        "Scheduling decisions were made: `decision`, `reason` (or null), `count`.",
    ),
    "queue.changed": (
        "queues",
        "The counts of a queue changed: `queue`, `queued`, `held`, `running`, `scheduled`, "
        "`blocked`, `oldest_seconds`.",
    ),
    "worker.live": ("workers", "A worker started, or resumed: `worker`, `name`."),
    "worker.stuck": ("workers", "The event loop of a worker is blocked: `worker`, `name`."),
    "worker.failing": ("workers", "A worker is live, but failing: `worker`, `name`."),
    "worker.stopping": ("workers", "A worker is shutting down: `worker`, `name`."),
    "worker.gone": ("workers", "A worker shut down cleanly: `worker`, `name`."),
    "worker.lost": ("workers", "A worker lost its lease: `worker`, `name`."),
    "log.stored": ("logs", "Log lines were stored: `count`."),
    "log.dropped": ("logs", "Log lines were dropped because a buffer was full: `count`."),
    "stats.changed": (
        "stats",
        "Totals of all queues, and attempts since the previous event: `queued`, `held`, `running`, "
        "`scheduled`, `blocked`, `attempts`.",
    ),
    "audit.recorded": (
        "audit",
        "An operator action: `id`, `at`, `actor`, `action` (such as `run.cancelled`), "
        "`object_type`, `object_id`, `tenant`, `reason`.",
    ),
}
_COUNTED = {"lines_stored": "log.stored", "lines_dropped": "log.dropped"}
_DEPTH = ("queued", "held", "running", "scheduled", "blocked")


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: dict[str, Any]

    @property
    def topic(self) -> str:
        return EVENTS[self.name][0]


def compare(before: Changes, now: Changes) -> Iterator[Event]:
    """Return the events between two polls; the rows of the audit are new already."""
    yield from _attempts(before, now)
    yield from _counts(before, now)
    yield from _queues(before, now)
    yield from _workers(before, now)
    for deed in now.deeds:
        yield Event("audit.recorded", asdict(deed) | {"at": deed.at.isoformat()})


def _attempts(before: Changes, now: Changes) -> Iterator[Event]:
    for (job, queue, outcome), total in now.attempts.items():
        count = total - before.attempts.get((job, queue, outcome), 0)
        name = "run.succeeded" if outcome == "succeeded" else f"attempt.{outcome}"
        if count > 0 and name in EVENTS:
            yield Event(name, {"job": job, "queue": queue, "count": count})


def _counts(before: Changes, now: Changes) -> Iterator[Event]:
    for (name, labels), total in now.counts.items():
        count = total - before.counts.get((name, labels), 0)
        if count <= 0:
            continue
        facts: dict[str, Any] = dict(labels)
        if name == "runs_ended":
            state = facts.pop("state")
            yield Event(f"run.{state}", facts | {"count": count})
        elif name == "occurrences":
            yield Event("occurrence.decided", {"reason": None} | facts | {"count": count})
        elif name in _COUNTED:
            yield Event(_COUNTED[name], {"count": count})


def _queues(before: Changes, now: Changes) -> Iterator[Event]:
    is_other = False
    for queue in sorted(before.depths.keys() | now.depths.keys()):
        old, new = before.depths.get(queue), now.depths.get(queue)
        if _depth(old) == _depth(new):
            continue
        is_other = True
        oldest = None if new is None else new.oldest_seconds
        yield Event("queue.changed", {"queue": queue} | _depth(new) | {"oldest_seconds": oldest})
    attempts = sum(now.attempts.values()) - sum(before.attempts.values())
    if is_other or attempts:
        sums = {name: sum(getattr(depth, name) for depth in now.depths.values()) for name in _DEPTH}
        yield Event("stats.changed", sums | {"attempts": attempts})


def _depth(counts: Any) -> dict[str, int]:
    return {name: 0 if counts is None else getattr(counts, name) for name in _DEPTH}


def _workers(before: Changes, now: Changes) -> Iterator[Event]:
    for worker, (name, state) in now.workers.items():
        if before.workers.get(worker) != (name, state):
            yield Event(f"worker.{state}", {"worker": worker, "name": name})
