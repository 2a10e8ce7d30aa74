"""Events: a named fact starts every job that is bound to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rota.config import Config
from rota.errors import InputError, PayloadError
from rota.jobs import connections
from rota.jobs.encoding import encode_value
from rota.jobs.handle import Run, RunReader
from rota.jobs.options import MAX_DELAY, NO_OPTIONS, KeyKeep
from rota.jobs.registry import Registry
from rota.jobs.sync import store_new, store_new_sync
from rota.jobs.values import check_duration, check_event, check_text
from rota.model.durations import Duration
from rota.postgres.errors import translate
from rota.postgres.events import emit
from rota.postgres.sessions.pool import Database
from rota.telemetry import parent


class Started(list[Run]):
    """The runs that an event has started, or that already existed; `event_id` is the event's id."""

    event_id: int | None = None

    @classmethod
    def of(cls, rows: Iterable[Any], reader: RunReader) -> Started:
        """Make the list from rows of run, job, whether the run existed already, and event id."""
        made = cls()
        for run_id, job, is_duplicate, event_id in rows:
            made.event_id = event_id
            if run_id is not None:
                made.append(Run(run_id, job, is_duplicate, reader))
        return made


class Emitter:
    """Sends events like calls: on Rota's connection, or in a caller's transaction. The database
    decides which jobs are bound to an event, so a payload is checked when a run starts."""

    def __init__(
        self, database: Database, config: Config, registry: Registry, reader: RunReader
    ) -> None:
        self._database = database
        self._config = config
        self._registry = registry
        self._reader = reader

    async def send(
        self, event: str, payload: Mapping[str, Any] | None, connection: Any, **options: Any
    ) -> Started:
        query = emit(event_parameters(event, payload, **options))
        with translate():
            await self._database.open()
            if self._registry.has_new:
                async with self._database.connection() as conn:
                    await store_new(conn, self._database.statements, self._registry, self._config)
        if connection is not None:
            statement = self._database.statements.of(query)
            rows = await connections.fetch(connection, *statement)
            return Started.of(query.read(rows), self._reader)
        with translate():
            return Started.of(await self._database.fetch(query), self._reader)

    def send_sync(
        self, event: str, payload: Mapping[str, Any] | None, connection: Any, **options: Any
    ) -> Started:
        query = emit(event_parameters(event, payload, **options))
        with translate():
            self._database.open_sync()
            if self._registry.has_new:
                with self._database.connection_sync() as conn:
                    store_new_sync(conn, self._database.statements, self._registry, self._config)
        if connection is not None:
            statement = self._database.statements.of(query)
            rows = connections.fetch_sync(connection, *statement)
            return Started.of(query.read(rows), self._reader)
        with translate(), self._database.connection_sync() as conn:
            return Started.of(self._database.fetch_on_sync(conn, query), self._reader)


def event_parameters(
    event: str,
    payload: Mapping[str, Any] | None,
    *,
    tenant: str,
    key: str | None,
    key_keep: KeyKeep = None,
    metadata: Mapping[str, Any] | None = None,
    hook: str | None = None,
    key_period: Duration | None = None,
    source: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the parameters of the statement; raise InputError if they are invalid."""
    if payload is not None and not isinstance(payload, Mapping):
        raise PayloadError(f'event "{event}": payload must be a mapping, not {payload!r}')
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f'event "{event}": metadata must be a mapping, not {metadata!r}')
    options = NO_OPTIONS.merge({"tenant": tenant, "key": key, "key_keep": key_keep}).check_whole()
    try:
        return {
            "event": _check_name(event),
            "payload": encode_value(dict(payload or {}), "payload").decode(),
            "tenant": options.tenant,
            "key": options.key,
            "key_seconds": options.key_keep,
            "parent_run_id": parent.run_id(),
            "key_scope": None,
            "metadata": encode_value(dict(metadata), "metadata").decode() if metadata else None,
            "hook": None if hook is None else check_text("hook", hook, most=200),
            "period_seconds": _period(key_period, key, key_keep),
            "source": encode_value(dict(source), "source").decode() if source else None,
        }
    except ValueError as error:
        raise InputError(str(error)) from None


def _check_name(event: Any) -> str:
    name = check_event("event", event)
    if "*" in name:
        raise ValueError(f"event {name!r} contains *, which only bindings may use")
    return name


def _period(value: Duration | None, key: str | None, key_keep: KeyKeep) -> float | None:
    if value is None:
        return None
    if key is None:
        raise ValueError("key_period needs a key")
    if key_keep is not None:
        raise ValueError(
            "give key_period or key_keep, not both: one counts from the event, the other from"
            " the end of each run"
        )
    return check_duration("key_period", value, most=MAX_DELAY)
