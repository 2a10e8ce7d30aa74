"""Reads that stay cheap however many runs wait, for displays that refresh every second."""

from __future__ import annotations

from collections.abc import Collection

from rota.model.overview import ComingSchedule, FailingJob, Overview, QueueRate, RunningRun
from rota.postgres.clock import read_clock
from rota.postgres.plans import Execute, Plan
from rota.postgres.queues import list_queues
from rota.postgres.workers.workers import list_workers


def read_overview(*, limit: int, failing_seconds: float) -> Plan[Overview]:
    queues = yield from read_queues()
    workers = yield from list_workers(include_gone=False)
    running = yield Execute("overview/running", {"limit": limit})
    failing = yield Execute("overview/failing", {"limit": limit, "seconds": failing_seconds})
    schedules = yield from read_coming(limit)
    return Overview(
        at=(yield from read_clock()),
        queues=queues,
        workers=workers,
        running=[RunningRun(**row) for row in running],
        failing=[FailingJob(**row) for row in failing],
        schedules=schedules,
    )


def read_coming(limit: int) -> Plan[list[ComingSchedule]]:
    rows = yield Execute("overview/schedules", {"limit": limit})
    return [ComingSchedule(**row) for row in rows]


def read_backlogs(queues: Collection[str], minutes: int) -> Plan[dict[str, list[int]]]:
    """Count the runs that waited in each minute; a queue that rested has no sample."""
    rows = yield Execute("overview/backlogs", {"queues": list(queues), "minutes": minutes})
    found = {queue: [0] * minutes for queue in queues}
    for row in rows:
        found[row["queue"]][-1 - row["ago"]] = row["queued"]
    return found


def read_queues() -> Plan[list[QueueRate]]:
    """Return queues, those with most waiting runs first."""
    found = yield from list_queues()
    rows = yield Execute("overview/rates", {})
    rates = {row["queue"]: row["per_second"] for row in rows}
    every = [QueueRate(queue, rates.get(queue.name, 0.0)) for queue in found]
    return sorted(every, key=lambda it: (-it.queue.queued, -it.queue.running, it.queue.name))
