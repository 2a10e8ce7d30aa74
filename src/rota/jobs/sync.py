"""Definitions from code into `rota.jobs`, which every enqueue reads.

What is new or has changed is written; fields that an operator touched stay. Which process may write
when old and new code run side by side is the database's to say: docs/decisions/0011.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from rota.config import Config
from rota.jobs.definition import JobDefinition
from rota.jobs.encoding import encode_value
from rota.jobs.registry import Registry
from rota.model.backoff import Backoff
from rota.store.definitions import Declared, declare, declare_plan
from rota.store.errors import translate
from rota.store.plans import Plan
from rota.store.statements import Statements

T = TypeVar("T")


async def register(
    connection: AsyncConnection[Any],
    statements: Statements,
    definitions: Iterable[JobDefinition],
    config: Config,
    application: str = "",
) -> list[str]:
    """Store the definitions; returns the names of those that are new or have changed."""
    with translate():
        async with connection.cursor(row_factory=tuple_row) as cursor:
            query = declare(declared(definitions, config, application))
            await cursor.execute(*statements.of(query))
            return query.read(await cursor.fetchall())


def register_sync(
    connection: Connection[Any],
    statements: Statements,
    definitions: Iterable[JobDefinition],
    config: Config,
    application: str = "",
) -> list[str]:
    """The same on a sync connection."""
    with translate(), connection.cursor(row_factory=tuple_row) as cursor:
        query = declare(declared(definitions, config, application))
        cursor.execute(*statements.of(query))
        return query.read(cursor.fetchall())


async def store_new(
    connection: AsyncConnection[Any], statements: Statements, registry: Registry, config: Config
) -> None:
    """Register what has been declared since the last time."""
    fresh = registry.new()
    query = declare(declared(fresh, config, registry.application, everything=registry))
    with translate():
        await connection.execute(*statements.of(query))
    registry.mark_stored(fresh)


def store_new_sync(
    connection: Connection[Any], statements: Statements, registry: Registry, config: Config
) -> None:
    """The same on a sync connection; the application's first one does it for all jobs."""
    fresh = registry.new()
    query = declare(declared(fresh, config, registry.application, everything=registry))
    with translate():
        connection.execute(*statements.of(query))
    registry.mark_stored(fresh)


def with_new(registry: Registry, config: Config, plan: Plan[T]) -> Plan[T]:
    """A plan that may name jobs declared since the last time: they are registered with it."""
    fresh = registry.new()
    if fresh:
        yield from declare_plan(declared(fresh, config, registry.application, everything=registry))
    answer = yield from plan
    registry.mark_stored(fresh)
    return answer


def whole(
    registry: Registry, config: Config, *, worker: int | None = None, forced: Sequence[str] = ()
) -> Declared:
    """Everything, so that what is gone from the code can be marked."""
    found = declared(registry, config, registry.application)
    return {**found, "worker": worker, "names": registry.names(), "forced": list(forced)}


def declared(
    definitions: Iterable[JobDefinition],
    config: Config,
    application: str = "",
    *,
    everything: Iterable[JobDefinition] | None = None,
) -> Declared:
    """What the database is told. The build is that of all that the process declares."""
    rows = sorted((row(it, config) for it in definitions), key=lambda one: str(one["name"]))
    return {
        "jobs": json.dumps(rows, ensure_ascii=False),
        "payload_bytes": config.runs.payload_bytes,
        "application": application,
        "build": build_of(rows if everything is None else [row(it, config) for it in everything]),
        "worker": None,
        "names": None,
        "forced": [],
    }


def build_of(rows: Iterable[dict[str, Any]]) -> str:
    """A digest of all definitions: two processes with the same one run the same code."""
    return _digest(sorted((str(one["name"]), one["hash"]) for one in rows))


def row(definition: JobDefinition, config: Config) -> dict[str, Any]:
    """A definition as the database reads it. Where the function is does not count as a change:
    two hosts may keep the same code in different places."""
    told = {
        "name": definition.name,
        "executor": definition.executor,
        "payload_schema": definition.schema.json_schema,
        "defaults": _defaults(definition, config),
        "schedules": definition.schedules,
    }
    return told | {"hash": _digest(told), "source": definition.source}


def _defaults(definition: JobDefinition, config: Config) -> dict[str, Any]:
    """The columns of `rota.jobs` that operators may change."""
    runs = config.runs
    backoff = definition.backoff
    return {
        "description": definition.description,
        "queue": definition.queue or "default",
        "priority": 5 if definition.priority is None else definition.priority,
        "max_attempts": definition.max_attempts or runs.max_attempts,
        "timeout_seconds": definition.timeout or runs.timeout_seconds,
        "backoff": backoff.to_json() if isinstance(backoff, Backoff) else None,
        "tags": definition.tags,
        "metadata": json.loads(encode_value(definition.metadata or {}, "metadata")),
        "default_payload": definition.default_payload,
        "is_enabled": definition.enabled,
        "log_level": definition.log_level,
        "events": definition.events,
        "event_filters": definition.event_filters,
        "event_delivery": definition.event_delivery,
        "retention": definition.retention and definition.retention.to_json(),
        "limits": definition.limits or None,
        "delay_seconds": definition.delay,
        "expires_in_seconds": definition.expires_in,
        "key": definition.key,
        "tenant": definition.tenant,
    }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
