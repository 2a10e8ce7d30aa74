"""Business events: `app.events`. Application code emits them with `app.emit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from rota.config import Config
from rota.errors import EventNotFound, FilterError, InputError
from rota.jobs.emit import Started, event_parameters
from rota.jobs.handle import RunReader
from rota.jobs.options import KeyKeep
from rota.jobs.registry import Registry
from rota.jobs.sync import with_new
from rota.jobs.tracing import with_carrier
from rota.model.asked import NewestFirst, OfJob, OfTenant, Since, Until
from rota.model.durations import Duration
from rota.model.event import (
    BindingInfo,
    DryRun,
    Emitted,
    EventFilters,
    EventHook,
    EventId,
    EventIds,
    EventInfo,
    EventKey,
    EventMetadata,
    EventName,
    EventPattern,
    EventPayload,
    EventTenant,
    KeySeconds,
    OfHook,
    PeriodSeconds,
    ReplayAgain,
    ReplayJob,
)
from rota.model.formatting import plural
from rota.model.page import LISTED_BYTES, Page
from rota.model.table_watch import Received, Refusal, Replayed
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.reading import reading
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.operations.scope import Scope
from rota.postgres import events
from rota.postgres.plans import Plan, call
from rota.postgres.sessions.pool import Database

Found = list[EventInfo]
Bindings = list[BindingInfo]
# Other names of fields, as `app.emit` has them.
_NAMES = {"key_keep": "key_seconds", "key_period": "period_seconds"}


class EmitNames(TypedDict, total=False):
    """The names that `app.emit` uses for `key_seconds` and `period_seconds`."""

    key_keep: KeyKeep
    key_period: Duration | None


def _emitted(done: Emitted, is_changed: bool, at: ShowTime) -> str:
    runs = [
        f"run {one.run_id} of {one.job}{' already exists' if one.is_duplicate else ' enqueued'}"
        for one in done.runs
    ]
    return f"event {done.event_id}: {', '.join(runs) or 'stored, but it started nothing'}"


def _replayed(done: Replayed, is_changed: bool, at: ShowTime) -> str:
    verb = "would start" if done.is_dry_run else "started"
    left = [
        f"{count:,} {word}"
        for count, word in (
            (done.joined, "joined the run of another event"),
            (done.delivered_before, "already delivered"),
            (done.filtered, "filtered out"),
            (done.held, "locked by another transaction"),
        )
        if count
    ]
    rest = f"; {', '.join(left)}" if left else ""
    return f"{plural(done.events, 'event')}: {verb} {plural(done.started, 'run')}{rest}"


class EventCommands(Commands):
    noun = Noun("event", "events", EventInfo, key="id", names=_NAMES)
    scope = Scope(
        takes=frozenset({"emit", "list", "page", "replay"}),
        own=frozenset({"get"}),
        shared=frozenset({"bindings"}),
    )

    def __init__(
        self,
        database: Database,
        registry: Registry,
        config: Config,
        reader: RunReader,
        actor: str | None = None,
    ) -> None:
        super().__init__(database, actor)
        self._registry, self._config, self._reader = registry, config, reader

    @operation(
        says=_emitted,
        has_target=False,
        creates=True,
        title="Emit an event",
        status=201,
        may_conflict=False,
        shown=Emitted,
        leads_to="event_id",
        is_reason_optional=True,
    )
    def emit(
        self,
        event: EventName,
        payload: EventPayload = None,
        *,
        tenant: EventTenant = "",
        key: EventKey = None,
        key_seconds: KeySeconds = None,
        period_seconds: PeriodSeconds = None,
        metadata: EventMetadata = None,
        hook: EventHook = None,
        reason: Reason = None,
        **names: Unpack[EmitNames],
    ) -> Plan[Started]:
        """Emit an event, starting every job bound to it. Runs of disabled jobs wait.

        The audit and the runs record who did it."""
        params = event_parameters(
            event,
            payload,
            tenant=tenant,
            key=key,
            key_keep=key_seconds,
            key_period=period_seconds,
            hook=hook,
            metadata=with_carrier(metadata),
        )
        return with_new(self._registry, self._config, self._emit(params, reason))

    def _emit(self, params: dict[str, Any], reason: str | None) -> Plan[Started]:
        rows = yield from events.emit_event(params, actor=self.actor, reason=reason)
        started = [
            (row["run_id"], row["job"], row["is_duplicate"], row["event_id"]) for row in rows
        ]
        return Started.of(started, self._reader)

    @command
    def receive(
        self,
        event: str,
        payload: Mapping[str, Any],
        *,
        tenant: str,
        key: str,
        key_period: float,
        key_scope: str,
        source: Mapping[str, Any],
    ) -> Plan[Received]:
        """Store a webhook delivery as an event, once per key and scope. There is no audit entry:
        the event records its source."""
        params = event_parameters(
            event, payload, tenant=tenant, key=key, key_period=key_period, source=source
        )
        params["key_scope"] = key_scope
        return with_new(self._registry, self._config, events.receive_event(params))

    @command
    def refuse(self, hook: str, reason: str, address: str) -> Plan[None]:
        """Record a rejected webhook request."""
        yield from call("refuse_hook", hook=hook, reason=reason, address=address)

    @reading(FilterError)
    def list(
        self,
        *,
        order: NewestFirst = "newest",
        before_id: int | None = None,
        limit: int = 50,
        **filters: Unpack[EventFilters],
    ) -> Plan[Found]:
        """List received events and what each started; if nothing, why.

        `before_id`: only events after this one in the order of the list."""
        cursor = None if before_id is None else (before_id,)
        found = yield from events.page_events(order=order, cursor=cursor, limit=limit, **filters)
        return [*found.items]

    @reading(FilterError)
    def page(
        self,
        *,
        order: NewestFirst = "newest",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[EventFilters],
    ) -> Plan[Page[EventInfo]]:
        """One page of that list, with the cursor of the next. Payloads of more than 8 kB are left
        out: `{"$omitted": …}` stands in their place, and `get` returns them."""
        return events.page_events(
            order=order, cursor=cursor, limit=limit, value_bytes=LISTED_BYTES, **filters
        )

    @reading()
    def get(self, event_id: EventId) -> Plan[EventInfo]:
        """Get one event and what it started.

        Raises EventNotFound if there is none."""
        found = yield from events.find_event(event_id)
        if self.tenant not in (None, found.tenant):
            raise EventNotFound(f"there is no event {event_id}")
        return found

    @reading(FilterError)
    def bindings(self, event: EventPattern = None, job: OfJob = None) -> Plan[Bindings]:
        """List event bindings: jobs, event names or patterns, and filters.

        With `event`, those that an event of this name matches."""
        return events.list_bindings(event, job)

    @operation(
        says=_replayed,
        has_target=False,
        title="Replay events",
        is_reason_optional=True,
        code="replay_events",
        may_conflict=False,
    )
    def replay(
        self,
        job: ReplayJob,
        *,
        event: EventPattern = None,
        ids: EventIds = None,
        since: Since = None,
        until: Until = None,
        tenant: OfTenant = None,
        again: ReplayAgain = False,
        dry_run: DryRun = False,
        reason: Reason = None,
    ) -> Plan[Replayed]:
        """Deliver stored events to a job that was bound to them later, by name or by ID. The
        filters of its bindings apply. At most 10,000 at a time."""
        if (event is None) == (ids is None):
            raise InputError("select events by event or by ids, one of them", field="event")
        return (
            yield from events.replay_events(
                job,
                event=event,
                ids=ids,
                since=since,
                until=until,
                tenant=tenant,
                again=again,
                dry_run=dry_run,
                reason=reason,
                actor=self.actor,
            )
        )

    @reading(FilterError)
    def refusals(
        self, hook: OfHook = None, *, cursor: Cursor = None, limit: int = 50
    ) -> Plan[Page[Refusal]]:
        """List requests that webhooks refused, by minute, latest first."""
        return events.page_refusals(hook, cursor=cursor, limit=limit)


class Events(EventCommands, AsyncCommands):
    """`app.events`"""

    @property
    def sync(self) -> SyncEvents:
        return SyncEvents(
            self.database, self._registry, self._config, self._reader, self.actor
        ).of_tenant(self.tenant)


class SyncEvents(EventCommands, SyncCommands):
    """`app.events.sync`"""
