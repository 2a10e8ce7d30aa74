"""Keeps this process's declarations and the database in step: registers them at the start of a
worker and after later declarations, and checks every few seconds.

Operators change timeouts and backoffs in the database; the next attempt uses them. When the workers
of newer code have left, the definitions of this process apply again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from psycopg import errors

from rota.config import Config
from rota.engine.loop import Loop
from rota.engine.loops.init_runs import run_inits
from rota.jobs.definition import JobDefinition
from rota.jobs.registry import Registry
from rota.jobs.sync import put_others, whole
from rota.model.backoff import Backoff
from rota.postgres import definitions
from rota.postgres.definitions import Declared
from rota.postgres.sessions.pool import AsyncConn, Database
from rota.postgres.workers.life import start_worker

_PERIOD = 5.0
_RESTING_SECONDS = 60.0


class Definitions(Loop):
    """`current` is shared with the runner: an entry is replaced when an operator changes it.

    `on_declared` makes the worker store its known jobs; it returns whether that succeeded.
    """

    name = "definitions"

    def __init__(
        self,
        database: Database,
        config: Config,
        registry: Registry,
        on_declared: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__()
        self._on_declared = on_declared
        self._told = 0  # the version of the registry that is stored
        self._database = database
        self._config = config
        self._registry = registry
        self._worker = 0
        self._is_new = True
        self._owes_inits = False
        self._held_by = ""
        self._overrides: Mapping[str, Any] = {}
        self.current: dict[str, JobDefinition] = {}

    async def announce(self, worker: int, version: int) -> None:
        """A worker has registered with this version: register its declarations, and run the init
        schedules. A worker that registers again after losing its lease does not count as a
        start."""
        self._worker = worker
        self._apply({})
        self._told = version if await self._declare() else 0

    async def _declare(self) -> bool:
        """Return whether the declarations are stored. If another open transaction holds a row,
        later turns try again, and the worker claims runs meanwhile."""
        declared, fetch_on = self._whole(), self._database.fetch_on
        async with self._database.connection(is_hurried=False) as conn:
            try:
                await fetch_on(conn, start_worker(declared, is_new=self._is_new))
                await self._register(conn, declared)
            except errors.LockNotAvailable as error:
                self._say_held(error)
                return False
            await self._look(conn)
            if self._is_new and self._config.scheduler.enabled:
                await self._run_inits(conn)
        self._is_new, self._held_by = False, ""
        return True

    def _say_held(self, error: errors.LockNotAvailable) -> None:
        """Log an error once, until it changes."""
        if self._held_by != str(error):
            self._held_by = str(error)
            text = "an open transaction prevents this worker from registering its declarations"
            self._log.warning(text, worker=self._worker, error=error)

    async def _register(self, conn: AsyncConn, declared: Declared) -> None:
        """Register the jobs first, because that decides which code is the newest; then the other
        declarations."""
        await self._database.fetch_on(conn, definitions.declare(declared))
        await self._database.run_on_async(conn, put_others(self._registry, declared["build"]))

    async def run_once(self) -> float:
        if self._registry.version != self._told:
            await self._tell()
        async with self._database.connection(is_hurried=False) as conn:
            try:
                if await self._look(conn):
                    await self._register(conn, self._whole())
            except errors.LockNotAvailable as error:
                self._say_held(error)
                return _PERIOD
            if self._owes_inits:
                await self._run_inits(conn)
        is_told = self._registry.version == self._told
        return self.pause(_PERIOD, _RESTING_SECONDS) if is_told else _PERIOD

    async def _run_inits(self, conn: AsyncConn) -> None:
        release = self._config.release
        is_all = await run_inits(conn, self._database, self._worker, release)
        self._owes_inits = not is_all

    async def _tell(self) -> None:
        """Register what was declared after the start: first the definitions that execute the runs,
        then the jobs that the worker may claim."""
        version = self._registry.version
        self._apply(self._overrides)
        is_said = await self._declare()
        if await self._on_declared() and is_said:
            self._told = version

    def _whole(self) -> Declared:
        return whole(self._registry, self._config, worker=self._worker)

    async def _look(self, conn: AsyncConn) -> bool:
        """Apply the changes of operators. Return whether registering again would write anything."""
        query = definitions.refresh(self._worker, self._registry.names())
        found = await self._database.fetch_on(conn, query)
        if found.overrides != self._overrides:
            self._apply(found.overrides)
        return found.must_sync

    def _apply(self, overrides: Mapping[str, Any]) -> None:
        for definition in self._registry:
            changes = self._read(definition.name, overrides.get(definition.name, {}))
            changed = replace(definition, **changes)
            self.current |= dict.fromkeys((definition.name, *definition.aliases), changed)
        self._overrides = overrides

    def _read(self, job: str, override: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if "timeout_seconds" in override:
            changes["timeout"] = override["timeout_seconds"]
        if "log_level" in override:
            changes["log_level"] = override["log_level"]
        if override.get("backoff") is not None:
            try:
                changes["backoff"] = Backoff.from_json(override["backoff"])
            except (ValueError, TypeError) as error:
                self._log.warning("a stored backoff is ignored", job=job, error=error)
        return changes
