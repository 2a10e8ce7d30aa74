"""Queues: reading them, and what people do with them."""

from __future__ import annotations

import json
from typing import Unpack

from rota.model.formatting import plural
from rota.model.page import Page
from rota.model.queue import (
    Order,
    QueueDetails,
    QueueFilters,
    QueueInfo,
    QueueName,
    QueueSettings,
)
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.instants import read_instant
from rota.operations.registry import Noun, PauseEnd, Reason, ShowTime, Version, operation
from rota.postgres import queues
from rota.postgres.pages import check_filters
from rota.postgres.plans import Plan, call
from rota.postgres.versions import expect_version

Found = list[QueueInfo]


def _paused(queue: QueueInfo, is_changed: bool, at: ShowTime) -> str:
    end = at(queue.paused_until) if queue.paused_until else "it is resumed"
    unused = "" if queue.is_used else "; no job or run uses it yet"
    return f"{'paused' if is_changed else 'was already paused'} until {end}{unused}"


def _before_pause(queue: QueueInfo) -> str:
    again = " It is already paused: this changes the end of the pause." if queue.is_paused else ""
    return (
        f"Workers stop claiming its runs: {plural(queue.queued, 'run')} and new ones will wait. "
        f"Running attempts ({queue.running:,}) continue.{again}"
    )


def _resumed(queue: QueueInfo, is_changed: bool, at: ShowTime) -> str:
    return "resumed" if is_changed else "was not paused"


def _before_resume(queue: QueueInfo) -> str:
    when = "at once" if queue.workers else "when a worker serves this queue; none does now"
    return f"{plural(queue.queued, 'waiting run')} will be claimed {when}."


def _set(queue: QueueInfo, is_changed: bool, at: ShowTime) -> str:
    return f"has {queue.cap or 'no limit on waiting runs'}"


def _before_set(queue: QueueInfo) -> str:
    also = f", plus {queue.scheduled:,} scheduled, which also count" if queue.scheduled else ""
    waiting = plural(queue.queued, "run waits", "runs wait")
    return f"{waiting} now{also}. The cap takes effect at once; counts are about a second old."


def _cleared(action: int, is_changed: bool, at: ShowTime) -> str:
    return f"is being cleared by bulk action {action}"


def _before_clear(queue: QueueInfo) -> str:
    waiting = queue.queued + queue.scheduled + queue.blocked
    return (
        f"{plural(waiting, 'waiting run')} will be cancelled; {queue.running:,} running continue."
    )


class QueueCommands(Commands):
    noun = Noun("queue", "queues", QueueInfo)

    @command
    def list(self, *, order: Order = "name", **filters: Unpack[QueueFilters]) -> Plan[Found]:
        """List queues and their backlog, sorted by name or by `order`. A queue exists if a job, an
        unfinished run or an operator names it."""
        check_filters(filters, QueueFilters, "queues")
        return queues.list_queues(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: Order = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[QueueFilters],
    ) -> Plan[Page[QueueInfo]]:
        """One page of that list, with the cursor of the next."""
        check_filters(filters, QueueFilters, "queues")
        return queues.page_queues(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: QueueName) -> Plan[QueueDetails]:
        """Get one queue with its runs by job.

        Raises QueueNotFound if nothing names it."""
        return queues.find_queue(name)

    @operation(says=_paused, asks=_before_pause)
    def pause(self, name: QueueName, reason: Reason = None, until: PauseEnd = None) -> Plan[bool]:
        """Pause a queue: nothing is claimed from it. Running attempts continue; new runs wait. For
        a paused queue, a new time or reason replaces the old one.

        Returns whether it changed: False if it was already paused like this."""
        end = None if until is None else (yield from read_instant(until, "until"))
        paused = call("pause_queue", queue=name, reason=reason, until=end, actor=self.actor)
        return bool((yield from paused))

    @operation(says=_resumed, asks=_before_resume, is_reason_optional=True)
    def resume(self, name: QueueName, reason: Reason = None) -> Plan[bool]:
        """Resume a paused queue.

        Returns whether it changed: False if it was not paused. Raises QueueNotFound if nothing
        names the queue."""
        resumed = yield from call("resume_queue", queue=name, reason=reason, actor=self.actor)
        if not resumed:
            yield from queues.find_queue(name)
        return bool(resumed)

    @operation(says=_set, asks=_before_set, title="Settings of queue", may_conflict=False)
    def set(
        self,
        name: QueueName,
        reason: Reason = None,
        *,
        version: Version = None,
        **settings: Unpack[QueueSettings],
    ) -> Plan[QueueInfo]:
        """Set what a queue is for, how many runs may wait in it, and what happens when it is full.
        Takes effect at once, and overrides the code.

        `app.queues.set("mail", max_waiting=1000, when_full="drop_lowest")`; `max_waiting=None`
        removes the cap. Raises VersionConflict if the queue is not at `version`."""
        yield from expect_version("queue", name, version)
        changes = json.dumps(settings)
        yield from call("set_queue", queue=name, settings=changes, reason=reason, actor=self.actor)
        return (yield from queues.find_queue(name)).queue

    @operation(says=_set)
    def reset(self, name: QueueName, reason: Reason = None) -> Plan[QueueInfo]:
        """Reset a queue to the values in the code: no cap, if it declares none."""
        yield from queues.find_queue(name)
        yield from call("reset_queue", queue=name, reason=reason, actor=self.actor)
        return (yield from queues.find_queue(name)).queue

    @operation(
        says=_cleared, asks=_before_clear, is_dangerous=True, result_name="bulk_action", example=7
    )
    def clear(self, name: QueueName, reason: Reason = None) -> Plan[int]:
        """Cancel all runs that wait in a queue now, as a bulk action. Running attempts continue.

        Returns the ID of the bulk action."""
        yield from queues.find_queue(name)
        chosen = json.dumps({"queue": name, "states": ["blocked", "scheduled", "queued"]})
        return int(
            (
                yield from call(
                    "start_bulk_action",
                    verb="cancel",
                    filter=chosen,
                    reason=reason,
                    actor=self.actor,
                )
            )
        )


class Queues(QueueCommands, AsyncCommands):
    """`app.queues`"""

    @property
    def sync(self) -> SyncQueues:
        return SyncQueues(self.database, self.actor)


class SyncQueues(QueueCommands, SyncCommands):
    """`app.queues.sync`"""
