"""Definitions from code into `rota.jobs`, which every enqueue reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from rota.config import Config
from rota.jobs.definition import JobDefinition
from rota.jobs.encoding import encode_value
from rota.jobs.registry import Registry
from rota.model.backoff import Backoff
from rota.store.errors import translate
from rota.store.statements import Statements


async def register(
    connection: AsyncConnection[Any],
    statements: Statements,
    definitions: Iterable[JobDefinition],
    config: Config,
) -> list[str]:
    """Store the definitions; answers the names of those that are new or have changed."""
    with translate():
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(statements.get("jobs/register"), parameters(definitions, config))
            return [name for (name,) in await cursor.fetchall()]


def register_sync(
    connection: Connection[Any],
    statements: Statements,
    definitions: Iterable[JobDefinition],
    config: Config,
) -> list[str]:
    """The same on a sync connection."""
    with translate(), connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(statements.get("jobs/register"), parameters(definitions, config))
        return [name for (name,) in cursor.fetchall()]


async def store_new(
    connection: AsyncConnection[Any], statements: Statements, registry: Registry, config: Config
) -> None:
    """Register what has been declared since the last time."""
    fresh = registry.new()
    await register(connection, statements, fresh, config)
    registry.mark_stored(fresh)


def store_new_sync(
    connection: Connection[Any], statements: Statements, registry: Registry, config: Config
) -> None:
    """The same on a sync connection; the application's first one does it for all jobs."""
    fresh = registry.new()
    register_sync(connection, statements, fresh, config)
    registry.mark_stored(fresh)


def parameters(definitions: Iterable[JobDefinition], config: Config) -> dict[str, Any]:
    """For `jobs/register.sql`."""
    rows = sorted((_row(it, config) for it in definitions), key=lambda row: str(row["name"]))
    return {
        "jobs": json.dumps(rows, ensure_ascii=False),
        "payload_bytes": config.runs.payload_bytes,
    }


def _row(definition: JobDefinition, config: Config) -> dict[str, Any]:
    runs = config.runs
    backoff = definition.backoff
    return {
        "name": definition.name,
        "description": definition.description,
        "queue": definition.queue or "default",
        "priority": 5 if definition.priority is None else definition.priority,
        "max_attempts": definition.max_attempts or runs.max_attempts,
        "timeout_seconds": definition.timeout or runs.timeout_seconds,
        "backoff": backoff.to_json() if isinstance(backoff, Backoff) else None,
        "executor": definition.executor,
        "payload_schema": definition.schema.json_schema,
        "tags": definition.tags,
        "metadata": json.loads(encode_value(definition.metadata or {}, "metadata")),
        "source": definition.source,
    }
