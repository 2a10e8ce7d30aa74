"""Reads queues, and stores their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from rota.errors import QueueNotFound
from rota.model.page import Page
from rota.model.queue import JobDepth, QueueDetails, QueueInfo, QueueOrder, QueueSettings, WhenFull
from rota.postgres.pages import check_order, read_all, read_page
from rota.postgres.plans import Execute, Plan, call
from rota.postgres.queries import Query, column


def _info(*, settings: QueueSettings, **row: Any) -> QueueInfo:
    return QueueInfo(**row, **settings)


def list_queues(
    *, paused: bool | None = None, order: str = "name", name: str | None = None
) -> Plan[list[QueueInfo]]:
    params = {"name": name, "paused": paused}
    return read_all("queues/list", params, _info, order=check_order(order, QueueOrder))


def page_queues(
    *, order: str, cursor: Sequence[Any] | None, limit: int, paused: bool | None = None
) -> Plan[Page[QueueInfo]]:
    order, params = check_order(order, QueueOrder), {"name": None, "paused": paused}
    return read_page("queues/list", params, _info, order=order, cursor=cursor, limit=limit)


def find_queue(name: str) -> Plan[QueueDetails]:
    found = yield from list_queues(name=name)
    if not found:
        known = [queue.name for queue in (yield from list_queues())]
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else None
        raise QueueNotFound(
            f'there is no queue "{name}": no job, run or setting names it', hint=hint
        )
    jobs = yield Execute("queues/jobs", {"name": name})
    return QueueDetails(found[0], [JobDepth(**row) for row in jobs])


def put_queue(
    name: str,
    max_waiting: int | None,
    when_full: WhenFull,
    *,
    actor: str,
    application: str,
    build: str | None,
) -> Plan[bool]:
    """Store the declaration of a queue. Return False if nothing changed, or a newer build declares
    it differently."""
    return bool(
        (
            yield from call(
                "put_queue",
                queue=name,
                max_waiting=max_waiting,
                when_full=when_full,
                actor=actor,
                application=application,
                build=build,
            )
        )
    )


def busy_queues() -> Query[list[str]]:
    """Return the queues that contain work."""
    return Query("queues/busy", {}, column)
