"""Commands about business events: emit, list and replay them. Application code uses `app.emit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

from rota.config import Config
from rota.errors import EventNotFound
from rota.jobs.emit import Started, event_parameters
from rota.jobs.handle import RunReader
from rota.jobs.options import KeyKeep
from rota.jobs.registry import Registry
from rota.jobs.sync import with_new
from rota.jobs.tracing import with_carrier
from rota.model.durations import Duration
from rota.model.event import BindingInfo, EventFilters, EventInfo
from rota.model.list_filters import TimeOrder
from rota.model.page import LISTED_BYTES, Page
from rota.model.table_watch import Received, Refusal, Replayed
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.scope import Scope
from rota.postgres import events
from rota.postgres.plans import Plan, call
from rota.postgres.sessions.pool import Database

Found = list[EventInfo]
Bindings = list[BindingInfo]


class EventCommands(Commands):
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

    @command
    def emit(
        self,
        event: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tenant: str = "",
        key: str | None = None,
        key_keep: KeyKeep = None,
        key_period: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        hook: str | None = None,
    ) -> Plan[Started]:
        """Emit an event as an operator: one run of every bound job; the audit and the runs record
        who did it. With a key, each job gets one run until it has ended and for `key_keep` after
        that; or one in each `key_period`. Every run gets the `metadata`."""
        params = event_parameters(
            event, payload, tenant=tenant, key=key, key_keep=key_keep, key_period=key_period,
            hook=hook, metadata=with_carrier(metadata),
        )  # fmt: skip
        return with_new(self._registry, self._config, self._emit(params))

    def _emit(self, params: dict[str, Any]) -> Plan[Started]:
        rows = yield from events.emit_event(params, actor=self.actor)
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

    @command
    def list(
        self,
        *,
        order: TimeOrder = "newest",
        before_id: int | None = None,
        limit: int = 50,
        **filters: Unpack[EventFilters],
    ) -> Plan[Found]:
        """List stored events by `name` (`*` matches any characters), `tenant`, `job`, `key`,
        `outcome`, `text` in the payload, `since` and `until`. `before_id`: only events after
        this one in the order of the list."""
        return self._list(order, before_id, limit, filters)

    def _list(
        self, order: str, before_id: int | None, limit: int, filters: EventFilters
    ) -> Plan[Found]:
        cursor = None if before_id is None else (before_id,)
        found = yield from events.page_events(order=order, cursor=cursor, limit=limit, **filters)
        return [*found.items]

    @command
    def page(
        self,
        *,
        order: TimeOrder = "newest",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[EventFilters],
    ) -> Plan[Page[EventInfo]]:
        """One page of that list, with the cursor of the next. Payloads of more than 8 kB are left
        out: `{"$omitted": …}` stands in their place, and `get` returns them."""
        return events.page_events(
            order=order, cursor=cursor, limit=limit, value_bytes=LISTED_BYTES, **filters
        )

    @command
    def get(self, event_id: int) -> Plan[EventInfo]:
        """One event with what it started. Raises EventNotFound if there is none."""
        return self._get(event_id)

    def _get(self, event_id: int) -> Plan[EventInfo]:
        found = yield from events.find_event(event_id)
        if self.tenant not in (None, found.tenant):
            raise EventNotFound(f"there is no event {event_id}")
        return found

    @command
    def bindings(self, event: str | None = None, job: str | None = None) -> Plan[Bindings]:
        """The bindings of jobs: all, those that match an event of this name, or those of a job."""
        return events.list_bindings(event, job)

    @command
    def replay(
        self,
        job: str,
        *,
        event: str | None = None,
        ids: Sequence[int] | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        tenant: str | None = None,
        again: bool = False,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> Plan[Replayed]:
        """Deliver stored events to a job, by name (or pattern) or by `ids`. The filters of its
        bindings apply. Events that the job already got are delivered only with `again`; a
        `dry_run` only counts. At most 10,000 at a time."""
        return events.replay_events(
            job, event=event, ids=None if ids is None else [*ids], since=since, until=until,
            tenant=tenant, again=again, dry_run=dry_run, reason=reason, actor=self.actor,
        )  # fmt: skip

    @command
    def refusals(
        self, hook: str | None = None, *, cursor: Cursor = None, limit: int = 50
    ) -> Plan[Page[Refusal]]:
        """One page of rejected webhook requests by minute, latest first."""
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
