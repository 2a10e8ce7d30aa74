"""Business events that people and other programs send. Code has `app.emit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.admin.face import AsyncFace, Face, SyncFace, command
from rota.config import Config
from rota.jobs.emit import event_parameters
from rota.jobs.handle import Run, RunReader
from rota.jobs.options import KeyKeep
from rota.jobs.registry import Registry
from rota.jobs.sync import with_new
from rota.store.events import emit_event
from rota.store.plans import Plan
from rota.store.pool import Database
from rota.telemetry import otel

Started = list[Run]


class EventCommands(Face):
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
    ) -> Plan[Started]:
        """One run of every job that is bound to the event, as a person asks for it: the audit and
        the runs say who. With a key, once for each, and for `key_keep` after its run has ended."""
        params = event_parameters(
            event, payload, tenant=tenant, key=key, key_keep=key_keep, metadata=otel.carrier()
        )
        return with_new(self._registry, self._config, self._emit(params))

    def _emit(self, params: dict[str, Any]) -> Plan[Started]:
        rows = yield from emit_event(params, actor=self.actor)
        return [Run(row["run_id"], row["job"], row["is_duplicate"], self._reader) for row in rows]


class Events(EventCommands, AsyncFace):
    """`app.events`"""

    @property
    def sync(self) -> SyncEvents:
        return SyncEvents(self.database, self._registry, self._config, self._reader, self.actor)


class SyncEvents(EventCommands, SyncFace):
    """`app.events.sync`"""
