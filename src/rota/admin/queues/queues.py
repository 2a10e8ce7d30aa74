"""What one can do with queues."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from rota.admin.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.admin.instants import read_instant
from rota.errors import PayloadError, TimingError
from rota.model.list_filters import QueueFilters, QueueOrder
from rota.model.page import Page
from rota.model.queue import QueueDetails, QueueInfo, WhenFull
from rota.store import queues
from rota.store.clock import read_clock
from rota.store.plans import Plan
from rota.store.versions import expect_version

Found = list[QueueInfo]


class QueueSettings(TypedDict, total=False):
    """What a queue may say; what is not named stays. `max_waiting` None: there is no cap."""

    max_waiting: int | None
    when_full: WhenFull


class QueueCommands(Commands):
    @command
    def list(self, *, order: QueueOrder = "name", **filters: Unpack[QueueFilters]) -> Plan[Found]:
        """Every queue that a job, an open run or an operator has named, by `name`, the `longest`
        line first, or the one whose `oldest` run waits longest; on request only `paused` ones."""
        return queues.list_queues(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: QueueOrder = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[QueueFilters],
    ) -> Plan[Page[QueueInfo]]:
        """A part of that list, and the cursor that leads to the next."""
        return queues.page_queues(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: str) -> Plan[QueueDetails]:
        """One queue with what is in it by job; QueueNotFound if nobody has named it."""
        return queues.find_queue(name)

    @command
    def pause(
        self, name: str, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> Plan[bool]:
        """Nothing of the queue is claimed any more until it is resumed, or `until` has come (or so
        long from now); what runs, runs on. Another `until` or reason replaces the one before.
        Answers whether it changed: False if it was paused like this already."""
        return self._pause(name, reason, until)

    def _pause(
        self, name: str, reason: str | None, until: datetime | timedelta | None
    ) -> Plan[bool]:
        end = None if until is None else (yield from read_instant(until, "until"))
        if end is not None and end <= (yield from read_clock()):
            raise TimingError(f"a pause ends in the future, not at {end.isoformat()}")
        return (yield from queues.pause_queue(name, reason=reason, until=end, actor=self.actor))

    @command
    def resume(self, name: str, reason: str | None = None) -> Plan[bool]:
        """Answers whether it changed: False if it was not paused. QueueNotFound if nobody has named
        it."""
        return self._resume(name, reason)

    def _resume(self, name: str, reason: str | None) -> Plan[bool]:
        is_changed = yield from queues.resume_queue(name, reason=reason, actor=self.actor)
        if not is_changed:
            yield from queues.find_queue(name)
        return is_changed

    @command
    def set(
        self,
        name: str,
        reason: str | None = None,
        *,
        version: int | None = None,
        **settings: Unpack[QueueSettings],
    ) -> Plan[QueueInfo]:
        """How many runs may wait in a queue, and what happens when more come:
        `app.queues.set("mail", max_waiting=1000, when_full="drop_lowest")`. It holds at once, and
        over what the code declares. VersionConflict if it is not at `version` any more."""
        known = QueueSettings.__annotations__
        odd: list[Any] = [field for field in settings if field not in known]
        if odd:
            raise PayloadError(f"a queue has no {odd[0]}", hint=f"it has {', '.join(known)}")
        return self._set(name, reason, version, settings)

    def _set(
        self, name: str, reason: str | None, version: int | None, settings: QueueSettings
    ) -> Plan[QueueInfo]:
        yield from expect_version("queue", name, version)
        yield from queues.set_queue(name, settings, reason=reason, actor=self.actor)
        return (yield from queues.find_queue(name)).queue

    @command
    def reset(self, name: str, reason: str | None = None) -> Plan[QueueInfo]:
        """Back to what the code declares of the queue: no cap, if it declares none."""
        return self._reset(name, reason)

    def _reset(self, name: str, reason: str | None) -> Plan[QueueInfo]:
        yield from queues.find_queue(name)
        yield from queues.reset_queue(name, reason=reason, actor=self.actor)
        return (yield from queues.find_queue(name)).queue


class Queues(QueueCommands, AsyncCommands):
    """`app.queues`"""

    @property
    def sync(self) -> SyncQueues:
        return SyncQueues(self.database, self.actor)


class SyncQueues(QueueCommands, SyncCommands):
    """`app.queues.sync`"""
