"""Reading queues, pausing and resuming them."""

from __future__ import annotations

from rota.model.queue import QueueInfo
from rota.store.plans import Ask, Plan


def list_queues() -> Plan[list[QueueInfo]]:
    rows = yield Ask("queues/list", {})
    return [QueueInfo(**row) for row in rows]


def pause_queue(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    """Nothing of it is claimed any more; what runs, runs on."""
    yield Ask("queues/pause", {"queue": name, "reason": reason, "actor": actor})


def resume_queue(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    yield Ask("queues/resume", {"queue": name, "reason": reason, "actor": actor})
