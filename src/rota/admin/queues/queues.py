"""Commands about queues."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from rota.admin.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.admin.instants import read_instant
from rota.errors import InputError, TimingError
from rota.model.list_filters import QueueFilters, QueueOrder
from rota.model.page import Page
from rota.model.queue import QueueDetails, QueueInfo, WhenFull
from rota.store import queues
from rota.store.clock import read_clock
from rota.store.pages import check_filters
from rota.store.plans import Plan
from rota.store.versions import expect_version

Found = list[QueueInfo]


class QueueSettings(TypedDict, total=False):
    """Settings of a queue; omitted ones do not change. `max_waiting` None: no cap."""

    max_waiting: int | None
    when_full: WhenFull


class QueueCommands(Commands):
    @command
    def list(self, *, order: QueueOrder = "name", **filters: Unpack[QueueFilters]) -> Plan[Found]:
        """List all queues named by a job, an unfinished run or an operator, by `name`, the
        `longest` backlog first, or the `oldest` waiting run first; optionally only `paused`
        ones."""
        check_filters(filters, QueueFilters, "queues")
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
        """One page of that list, with the cursor of the next."""
        check_filters(filters, QueueFilters, "queues")
        return queues.page_queues(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: str) -> Plan[QueueDetails]:
        """One queue with its runs by job. Raises QueueNotFound if nothing names it."""
        return queues.find_queue(name)

    @command
    def pause(
        self, name: str, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> Plan[bool]:
        """Stop claiming from the queue until it is resumed, or until `until` (a time, or a duration
        from now); running attempts continue. For a paused queue, a new `until` or reason replaces
        the old one. Returns whether it changed: False if it was already paused like this."""
        return self._pause(name, reason, until)

    def _pause(
        self, name: str, reason: str | None, until: datetime | timedelta | None
    ) -> Plan[bool]:
        end = None if until is None else (yield from read_instant(until, "until"))
        if end is not None and end <= (yield from read_clock()):
            raise TimingError(f"the end of a pause must be in the future, not {end.isoformat()}")
        return (yield from queues.pause_queue(name, reason=reason, until=end, actor=self.actor))

    @command
    def resume(self, name: str, reason: str | None = None) -> Plan[bool]:
        """Resume claiming. Returns whether it changed: False if it was not paused. Raises
        QueueNotFound if nothing names the queue."""
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
        """Set how many runs may wait in a queue, and what happens when it is full:
        `app.queues.set("mail", max_waiting=1000, when_full="drop_lowest")`. Takes effect at once
        and overrides the code. Raises VersionConflict if the queue is not at `version`."""
        known = QueueSettings.__annotations__
        odd: list[Any] = [field for field in settings if field not in known]
        if odd:
            raise InputError(
                f"unknown queue setting {odd[0]!r}", hint=f"choose from {', '.join(known)}"
            )
        return self._set(name, reason, version, settings)

    def _set(
        self, name: str, reason: str | None, version: int | None, settings: QueueSettings
    ) -> Plan[QueueInfo]:
        yield from expect_version("queue", name, version)
        yield from queues.set_queue(name, settings, reason=reason, actor=self.actor)
        return (yield from queues.find_queue(name)).queue

    @command
    def reset(self, name: str, reason: str | None = None) -> Plan[QueueInfo]:
        """Reset the queue to the code: no cap, if the code declares none."""
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
