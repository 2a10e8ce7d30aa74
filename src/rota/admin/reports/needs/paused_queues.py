"""Queues that somebody has paused, with what waits in them."""

from __future__ import annotations

from datetime import UTC

from rota.admin.reports.needs.kind import Found, Kind, command
from rota.model.attention import Need
from rota.model.queue import QueueInfo
from rota.model.words import duration, plural
from rota.store.plans import Plan
from rota.store.queues import list_queues


def find(limit: int) -> Plan[Found]:
    queues = yield from list_queues(paused=True, order="longest")
    return Found([_need(one) for one in queues[:limit]], len(queues))


def _need(queue: QueueInfo) -> Need:
    wait = plural(queue.queued, "run waits", "runs wait") if queue.queued else "nothing waits"
    oldest = "" if queue.oldest_seconds is None else f", for {duration(queue.oldest_seconds)}"
    if oldest and queue.queued > 1:
        oldest = f", the oldest{oldest.removeprefix(',')}"
    why = f": “{queue.pause_reason}”" if queue.pause_reason else ""
    until = queue.paused_until
    end = f"until {until.astimezone(UTC):%d %b, %H:%M} UTC" if until else "no end set"
    return Need(
        kind=KIND.name,
        state="paused",
        subject="queue",
        name=queue.name,
        noun="Queue",
        says=f"is paused: {wait}{oldest}",
        reason=f"by {queue.paused_by or 'somebody'}{why}, {end}",
        since=queue.paused_at,
        figures={"waiting": queue.queued, "oldest_seconds": queue.oldest_seconds},
        command=command("queues", "resume", queue.name),
    )


KIND = Kind("paused_queue", "queue", "paused", find)
