"""Bulk actions on all runs that match a filter: start, follow, throttle, pause and stop them.

Workers perform a bulk action in small batches, and so does a caller that waits for it. It continues
if a worker or this process dies, and its record is kept with the number of runs done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

from rota.errors import BulkActionNotFound, FilterError
from rota.jobs.registry import Registry
from rota.jobs.values import checked_delay
from rota.model.bulk import FITTING, Action
from rota.model.bulk_action import ActionId, BulkAction, BulkState, Rate
from rota.model.durations import Duration
from rota.model.formatting import plural, rate
from rota.model.page import Page
from rota.model.run_counts import RunCounts
from rota.model.run_filter import RunFilter, RunFilters
from rota.model.states import wanted_states
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.payloads import encode
from rota.operations.registry import Noun, Reason, Says, ShowTime, operation
from rota.operations.scope import Scope
from rota.postgres.plans import Plan, call
from rota.postgres.runs import bulk_actions, bulk_work
from rota.postgres.runs.lists import count_runs
from rota.postgres.sessions.pool import Database
from rota.postgres.steps import OnProgress

T = TypeVar("T")
# The count before the action is only informative: it stops here.
MOST_COUNTED = 10_000
_COUNT_SECONDS = 0.2
_LOOK_SECONDS = 0.25


def _is(state: str) -> Says:
    return lambda action, is_changed, at: f"is {state}; {plural(action.done, 'run')} done"


def _throttled(action: BulkAction, is_changed: bool, at: ShowTime) -> str:
    limit = "has no rate limit" if action.rate is None else f"is limited to {rate(action.rate)}"
    return f"{limit}; {plural(action.done, 'run')} done"


def _before_pause(action: BulkAction) -> str:
    return f"{_progress(action)} It pauses after the current batch and can be resumed."


def _before_resume(action: BulkAction) -> str:
    return f"{_progress(action)} It continues where it stopped."


def _before_stop(action: BulkAction) -> str:
    return (
        f"{_progress(action)} It stops after the current batch and cannot be resumed. Completed "
        "work is not undone."
    )


def _progress(action: BulkAction) -> str:
    doing = {"retry": "Retrying", "cancel": "Cancelling", "delete": "Deleting"}[action.verb]
    more = "" if action.is_counted else " or more"
    return f"{doing} runs, {action.worked:,} of {action.total:,}{more}."


class BulkCommands(Commands):
    noun = Noun("bulk action", "bulk", BulkAction, key="id")
    registry: Registry | None = None
    scope = Scope(
        takes=frozenset({"start", "preview"}),
        own=frozenset({"get", "pause", "resume", "stop", "throttle", "_work"}),
    )

    @command
    def start(
        self,
        verb: Action,
        *,
        payload: Mapping[str, Any] | None = None,
        delay: Duration | None = None,
        limit: int | None = None,
        rate: float | None = None,
        reason: str | None = None,
        **filters: Unpack[RunFilters],
    ) -> Plan[BulkAction]:
        """Retry, cancel or delete all runs that match the filter now, newest first, at most `limit`
        of them and at most `rate` per second. Runs that are enqueued later are not affected.
        Returns at once: workers carry it out."""
        wanted = _filter(verb, filters)
        if verb != "retry" and (payload is not None or delay is not None):
            raise FilterError(f"payload and delay apply only to retry, not to {verb}")
        if payload is not None and wanted.job is None:
            raise FilterError("a new payload needs a filter that names a single job")
        _check_limit(limit)
        _check_rate(rate)
        return bulk_actions.start(
            verb,
            wanted,
            payload=None
            if payload is None
            else encode(self.registry, wanted.job or "", payload)[0],
            delay=checked_delay(delay),
            limit=limit,
            rate=rate,
            reason=reason,
            actor=self.actor,
        )

    @command
    def preview(
        self, verb: Action, *, seconds: float = _COUNT_SECONDS, **filters: Unpack[RunFilters]
    ) -> Plan[RunCounts]:
        """Count the runs that an action would apply to, by job and state: up to 10,000, and for at
        most `seconds`."""
        wanted = _filter(verb, filters)
        return count_runs(wanted.or_states(FITTING[verb]), most=MOST_COUNTED, seconds=seconds)

    @command
    def page(
        self,
        *,
        state: str | Sequence[str] | None = None,
        states: Sequence[str] | None = None,
        is_open: bool | None = None,
        cursor: Cursor = None,
        limit: int = 50,
    ) -> Plan[Page[BulkAction]]:
        """One page of bulk actions, newest first; optionally only those in one of these states, or
        only those that have not ended."""
        wanted = wanted_states(state, states, BulkState)
        return bulk_actions.page(states=wanted, is_open=is_open, cursor=cursor, limit=limit)

    @command
    def get(self, action_id: ActionId) -> Plan[BulkAction]:
        """Return one bulk action. Raises BulkActionNotFound if there is none."""
        return self._mine(action_id, bulk_actions.find(action_id))

    @operation(says=_is("paused"), asks=_before_pause, is_reason_optional=True)
    def pause(self, action_id: ActionId, reason: Reason = None) -> Plan[BulkAction]:
        """Pause a bulk action after the current batch."""
        given = {"action_id": action_id, "reason": reason, "actor": self.actor}
        return self._steer(action_id, call("pause_bulk_action", **given))

    @operation(says=_is("resumed"), asks=_before_resume, is_reason_optional=True)
    def resume(self, action_id: ActionId, reason: Reason = None) -> Plan[BulkAction]:
        """Resume a paused bulk action where it left off."""
        given = {"action_id": action_id, "reason": reason, "actor": self.actor}
        return self._steer(action_id, call("resume_bulk_action", **given))

    @operation(says=_is("stopped"), asks=_before_stop, is_reason_optional=True, is_dangerous=True)
    def stop(self, action_id: ActionId, reason: Reason = None) -> Plan[BulkAction]:
        """Stop a bulk action permanently. Changes already made are kept."""
        given = {"action_id": action_id, "reason": reason, "actor": self.actor}
        return self._steer(action_id, call("stop_bulk_action", **given))

    @operation(says=_throttled, is_reason_optional=True)
    def throttle(
        self, action_id: ActionId, rate: Rate = None, reason: Reason = None
    ) -> Plan[BulkAction]:
        """Change the rate limit of a bulk action. Without a rate, it is removed."""
        given = {"action_id": action_id, "reason": reason, "actor": self.actor}
        return self._steer(action_id, call("throttle_bulk_action", **given, rate=rate))

    def _steer(self, action_id: int, step: Plan[Any]) -> Plan[BulkAction]:
        yield from self._mine(action_id, step)
        return (yield from bulk_actions.find(action_id))

    @command
    def _work(self, action_id: int) -> Plan[bool]:
        return self._mine(action_id, bulk_work.work(bulk_work.BulkTurn(), action_id))

    def _mine(self, action_id: int, plan: Plan[T]) -> Plan[T]:
        """For a tenant handle: only actions that were started for that tenant."""
        if self.tenant is not None:
            found = yield from bulk_actions.find(action_id)
            if found.filter.get("tenant") != self.tenant:
                raise BulkActionNotFound(f"there is no bulk action {action_id}")
        return (yield from plan)


class BulkActions(BulkCommands, AsyncCommands):
    """`app.bulk`"""

    def __init__(
        self, database: Database, registry: Registry | None = None, actor: str | None = None
    ) -> None:
        super().__init__(database, actor)
        self.registry = registry

    @property
    def sync(self) -> SyncBulkActions:
        return SyncBulkActions(self).of_tenant(self.tenant)

    async def carry_out(
        self,
        action_id: int,
        on_progress: OnProgress | None = None,
        on_total: OnProgress | None = None,
    ) -> BulkAction:
        """Help to carry out a bulk action until it is finished, paused or stopped. `on_progress` is
        called with the number of newly processed runs, whoever processed them; `on_total` with the
        number of matching runs counted so far."""
        seen = 0
        while True:
            has_worked = await self._work(action_id)
            action = await self.get(action_id)
            seen = _tell(on_progress, on_total, seen, action)
            if action.state != "running":
                return action
            if not has_worked:
                await asyncio.sleep(_LOOK_SECONDS)


class SyncBulkActions(BulkCommands, SyncCommands):
    """`app.bulk.sync`"""

    def __init__(self, actions: BulkActions) -> None:
        super().__init__(actions.database, actions.actor)
        self.registry = actions.registry

    def carry_out(
        self,
        action_id: int,
        on_progress: OnProgress | None = None,
        on_total: OnProgress | None = None,
    ) -> BulkAction:
        seen = 0
        while True:
            has_worked = self._work(action_id)
            action = self.get(action_id)
            seen = _tell(on_progress, on_total, seen, action)
            if action.state != "running":
                return action
            if not has_worked:
                time.sleep(_LOOK_SECONDS)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise FilterError(f"limit must be at least 1, not {limit}")


def _check_rate(rate: float | None) -> None:
    if rate is not None and not 0.01 <= rate <= 1_000_000:
        raise FilterError(f"rate must be from 0.01 to 1,000,000 runs per second, not {rate}")


def _filter(verb: str, filters: RunFilters) -> RunFilter:
    if verb not in FITTING:
        raise FilterError(f"unknown action {verb!r}", hint=f"choose from {', '.join(FITTING)}")
    wanted = RunFilter.of(filters)
    if wanted.is_empty:
        raise FilterError("a bulk action needs a filter that selects its runs")
    return wanted


def _tell(
    on_progress: OnProgress | None, on_total: OnProgress | None, seen: int, action: BulkAction
) -> int:
    if on_total is not None:
        on_total(action.total)
    if on_progress is not None and action.worked > seen:
        on_progress(action.worked - seen)
    return action.worked
