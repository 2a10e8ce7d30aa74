"""Stores job definitions from code in `rota.jobs`, which every enqueue reads.

New and changed definitions are written; fields that an operator edited stay. When old and new code
run side by side, the database decides which process may write: docs/decisions/0011.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, errors
from psycopg.rows import tuple_row

from rota.config import Config
from rota.jobs.definition import JobDefinition
from rota.jobs.encoding import encode_value
from rota.jobs.registry import Declaration, Registry
from rota.model.backoff import Backoff
from rota.postgres.definitions import Declared, declare, declare_plan, limit_waiting
from rota.postgres.errors import translate
from rota.postgres.plans import Plan
from rota.postgres.statements import Statements
from rota.telemetry.logger import get_logger

T = TypeVar("T")
Put = dict[str, int]
# Columns of schedules that code may compute at its start: `start_at=` an hour from now.
INSTANTS = ("run_at", "start_at", "end_at")
_AGAIN_SECONDS = 10.0
_LOCK_MS = 1000

_log = get_logger("definitions")


async def register(
    connection: AsyncConnection[Any],
    statements: Statements,
    definitions: Iterable[JobDefinition],
    config: Config,
    application: str = "",
) -> list[str]:
    """Store the definitions; return the names of new and changed ones."""
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
    """Store the definitions on a sync connection."""
    with translate(), connection.cursor(row_factory=tuple_row) as cursor:
        query = declare(declared(definitions, config, application))
        cursor.execute(*statements.of(query))
        return query.read(cursor.fetchall())


async def store_new(
    connection: AsyncConnection[Any], statements: Statements, registry: Registry, config: Config
) -> None:
    """Register the jobs declared since the last time, or later if an open transaction prevents
    it."""
    fresh = registry.new()
    new = declared(fresh, config, registry.application, registry=registry)
    with translate():
        try:
            await connection.execute(*statements.of(declare(new)))
        except errors.LockNotAvailable as error:
            _postpone(registry, error)
        else:
            registry.mark_stored(fresh, new["build"])


def store_new_sync(
    connection: Connection[Any], statements: Statements, registry: Registry, config: Config
) -> bool:
    """Register new jobs on a sync connection; the application's first connection registers all.
    Return whether they are registered."""
    fresh = registry.new()
    new = declared(fresh, config, registry.application, registry=registry)
    with translate():
        try:
            connection.execute(*statements.of(declare(new)))
        except errors.LockNotAvailable as error:
            _postpone(registry, error)
            return False
    registry.mark_stored(fresh, new["build"])
    return True


def _postpone(registry: Registry, error: errors.LockNotAvailable) -> None:
    """Nobody waits for somebody else's transaction: jobs that are registered already can be
    enqueued as they are."""
    registry.postpone(_AGAIN_SECONDS)
    warn_of_holder(error)


def warn_of_holder(error: errors.LockNotAvailable) -> None:
    """Log that declarations are registered later, by this process or by the workers."""
    text = "an open transaction prevents this process from registering its declarations"
    _log.warning(text, error=error)


def with_new(registry: Registry, config: Config, plan: Plan[T]) -> Plan[T]:
    """Run a plan that may name new jobs: they are registered with it."""
    fresh = registry.new()
    if not fresh:
        return (yield from plan)
    new = declared(fresh, config, registry.application, registry=registry)
    yield from declare_plan(new)
    answer = yield from plan
    registry.mark_stored(fresh, new["build"])
    return answer


def put_others(registry: Registry, build: str | None, forced: Sequence[str] = ()) -> Plan[Put]:
    """Store the declarations besides jobs, after the jobs; return how many were written, by kind.
    `forced` are jobs whose edits are overwritten. Raises LockNotAvailable if an open transaction
    holds one of them: a process must start all the same."""
    written: Put = {}
    yield from limit_waiting(_LOCK_MS)
    for kind in registry.kinds:
        written[kind.noun] = yield from kind.put(build, forced)
    return written


def whole(
    registry: Registry, config: Config, *, worker: int | None = None, forced: Sequence[str] = ()
) -> Declared:
    """Return all declarations, so that those removed from the code can be marked."""
    found = declared(registry, config, registry.application, registry=registry)
    return {**found, "worker": worker, "names": registry.names(), "forced": list(forced)}


def declared(
    definitions: Iterable[JobDefinition],
    config: Config,
    application: str = "",
    *,
    registry: Registry | None = None,
) -> Declared:
    """Return the declarations for the database. The build covers all declarations of the
    process."""
    rows = sorted((row(job, config) for job in definitions), key=lambda job: str(job["name"]))
    everything = rows if registry is None else [row(job, config) for job in registry]
    kinds = [] if registry is None else registry.kinds
    others = {kind.noun: made for kind in kinds if (made := kind.said())}
    return {
        "jobs": json.dumps(rows, ensure_ascii=False),
        "payload_bytes": config.runs.payload_bytes,
        "application": application,
        "build": build_of(everything, others),
        "worker": None,
        "names": None,
        "forced": [],
        "shape": shape_of(everything, others) if everything or others else None,
        "before": None if registry is None else registry.build,
        "release": config.release,
    }


def build_of(rows: Iterable[dict[str, Any]], others: Mapping[str, Sequence[Declaration]]) -> str:
    """Return a digest of all declarations: processes with the same digest run the same code."""
    jobs = sorted((str(job["name"]), job["hash"]) for job in rows)
    if not others:
        return _digest(jobs)
    declared_others = {
        noun: sorted((*declaration.key, _digest(declaration.value)) for declaration in made)
        for noun, made in others.items()
    }
    return _digest([jobs, declared_others])


def shape_of(rows: Iterable[dict[str, Any]], others: Mapping[str, Sequence[Declaration]]) -> str:
    """Return the digest without values that a process may compute at each start: instants, and the
    tenants of schedules."""
    jobs = sorted((str(job["name"]), _digest(_lasting(job))) for job in rows)
    declared_others = {
        noun: sorted({(it.key[-1], _digest(_lasting(it.value))) for it in made})
        for noun, made in others.items()
    }
    return _digest([jobs, declared_others])


def _lasting(value: Any) -> Any:
    if isinstance(value, Mapping):
        dropped = ("source", "hash", *INSTANTS)
        return {key: _lasting(it) for key, it in value.items() if key not in dropped}
    return [_lasting(it) for it in value] if isinstance(value, list | tuple) else value


def row(definition: JobDefinition, config: Config) -> dict[str, Any]:
    """Return a definition as the database reads it. The function's place is not part of the hash:
    two hosts may keep the same code in different places."""
    hashed = {
        "name": definition.name,
        "executor": definition.executor,
        "payload_schema": definition.schema.json_schema,
        "defaults": _defaults(definition, config),
        "schedules": definition.schedules,
    }
    if definition.aliases:
        hashed["aliases"] = definition.aliases
    aside = {"source": definition.source, "signature": definition.schema.hash}
    return hashed | {"hash": _digest(hashed)} | aside


def _defaults(definition: JobDefinition, config: Config) -> dict[str, Any]:
    """Return the columns of `rota.jobs` that operators may change."""
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
