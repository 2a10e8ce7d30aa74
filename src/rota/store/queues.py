"""Reading queues, pausing and resuming them."""

from __future__ import annotations

from difflib import get_close_matches

from rota.errors import QueueNotFound
from rota.model.queue import JobDepth, QueueDetails, QueueInfo
from rota.store.plans import Ask, Plan


def list_queues() -> Plan[list[QueueInfo]]:
    rows = yield Ask("queues/list", {"name": None})
    return [QueueInfo(**row) for row in rows]


def find_queue(name: str) -> Plan[QueueDetails]:
    rows = yield Ask("queues/list", {"name": name})
    if not rows:
        known = [queue.name for queue in (yield from list_queues())]
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else None
        raise QueueNotFound(f'no job, run or operator has named a queue "{name}"', hint=hint)
    jobs = yield Ask("queues/jobs", {"name": name})
    return QueueDetails(QueueInfo(**rows[0]), [JobDepth(**row) for row in jobs])


def pause_queue(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    """Nothing of it is claimed any more; what runs, runs on."""
    yield Ask("queues/pause", {"queue": name, "reason": reason, "actor": actor})


def resume_queue(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    yield Ask("queues/resume", {"queue": name, "reason": reason, "actor": actor})
