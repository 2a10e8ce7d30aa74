"""Reading queues, pausing and resuming them, and how many runs may wait in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from rota.errors import QueueNotFound
from rota.model.list_filters import QueueOrder
from rota.model.page import Page
from rota.model.queue import JobDepth, QueueDetails, QueueInfo, WhenFull
from rota.store.pages import check_order, read_all, read_page
from rota.store.plans import Ask, Plan
from rota.store.queries import Query, column


def list_queues(
    *, paused: bool | None = None, order: str = "name", name: str | None = None
) -> Plan[list[QueueInfo]]:
    params = {"name": name, "paused": paused}
    return read_all("queues/list", params, QueueInfo, order=check_order(order, QueueOrder))


def page_queues(
    *, order: str, cursor: Sequence[Any] | None, limit: int, paused: bool | None = None
) -> Plan[Page[QueueInfo]]:
    order, params = check_order(order, QueueOrder), {"name": None, "paused": paused}
    return read_page("queues/list", params, QueueInfo, order=order, cursor=cursor, limit=limit)


def find_queue(name: str) -> Plan[QueueDetails]:
    found = yield from list_queues(name=name)
    if not found:
        known = [queue.name for queue in (yield from list_queues())]
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else None
        raise QueueNotFound(
            f'there is no queue "{name}": no job, run or setting names it', hint=hint
        )
    jobs = yield Ask("queues/jobs", {"name": name})
    return QueueDetails(found[0], [JobDepth(**row) for row in jobs])


def pause_queue(
    name: str, *, reason: str | None, until: datetime | None, actor: str | None
) -> Plan[bool]:
    """Nothing of it is claimed any more; what runs, runs on. False if it was so already."""
    params = {"queue": name, "reason": reason, "until": until, "actor": actor}
    (row,) = yield Ask("queues/pause", params)
    return bool(row["is_changed"])


def resume_queue(name: str, *, reason: str | None, actor: str | None) -> Plan[bool]:
    """False if it was not paused."""
    (row,) = yield Ask("queues/resume", {"queue": name, "reason": reason, "actor": actor})
    return bool(row["is_changed"])


def set_queue(
    name: str, settings: Mapping[str, Any], *, reason: str | None, actor: str | None
) -> Plan[None]:
    params = {"queue": name, "settings": json.dumps(dict(settings))}
    yield Ask("queues/set", params | {"reason": reason, "actor": actor})


def reset_queue(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    """Back to what the code says."""
    yield Ask("queues/reset", {"queue": name, "reason": reason, "actor": actor})


def put_queue(
    name: str,
    max_waiting: int | None,
    when_full: WhenFull,
    *,
    actor: str,
    application: str,
    build: str | None,
) -> Plan[bool]:
    """What code declares of it. False: it was so already, or newer code says something else."""
    params = {
        "queue": name, "max_waiting": max_waiting, "when_full": when_full, "actor": actor,
        "application": application, "build": build,
    }  # fmt: skip
    rows = yield Ask("queues/put", params)
    return bool(rows[0]["is_written"])


def busy_queues() -> Query[list[str]]:
    """Those that hold work."""
    return Query("queues/busy", {}, column)
