"""The SQL jobs of the database, which every worker can execute: no code has to declare them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rota.config import Config
from rota.engine.loop import Loop
from rota.model.backoff import Backoff
from rota.model.outcome import Policy
from rota.postgres.sessions.pool import Database
from rota.postgres.sql_jobs import list_sql_jobs
from rota.telemetry.logger import get_logger

# A change is announced by a call; the period covers lost calls.
_PERIOD = 30.0

_log = get_logger("jobs")


@dataclass(frozen=True, slots=True)
class SqlJob:
    """The part of a SQL job that a worker caches; the function itself is looked up for every
    attempt."""

    name: str
    timeout: float | None = None
    backoff: Mapping[str, Any] | None = None
    log_level: str | None = None
    executor: Literal["sql"] = "sql"
    capture_logs: Literal[False] = False
    upgrade: None = None

    def policy(
        self,
        config: Config,
        random_number: Callable[[], float] = random.random,
        override_backoff_json: Mapping[str, Any] | None = None,
    ) -> Policy:
        backoff = config.runs.default_backoff()
        for stored in (override_backoff_json, self.backoff):
            if stored is not None:
                try:
                    backoff = Backoff.from_json(stored)
                    break
                except (ValueError, TypeError) as error:
                    # Stored without validation; a retry must not fail because of it.
                    _log.warning("stored backoff is ignored", job=self.name, error=error)
        return Policy(lambda attempt: backoff.delay(attempt, random_number))


class SqlJobs(Loop):
    """Reads the SQL jobs at the start, when a call announces a change, and now and then.

    `on_change` returns whether the known jobs were stored; if not, it is called again.
    """

    name = "sql jobs"

    def __init__(self, database: Database, on_change: Callable[[], Awaitable[bool]]) -> None:
        super().__init__()
        self._database = database
        self._on_change = on_change
        self._told: list[str] | None = None
        # Deleted jobs stay here: a run of one may just have been claimed.
        self._jobs: dict[str, SqlJob] = {}
        self.names: list[str] = []

    def get(self, name: str) -> SqlJob:
        return self._jobs.get(name) or SqlJob(name)

    async def refresh(self) -> None:
        stored = await self._database.fetch(list_sql_jobs(), is_hurried=False)
        self._jobs |= {job.name: SqlJob(*job) for job in stored}
        self.names = [job.name for job in stored]

    async def run_once(self) -> float:
        await self.refresh()
        if self.names != self._told:
            names = self.names
            if not await self._on_change():
                return _PERIOD
            self._told = names
        return self.pause(_PERIOD, 2 * _PERIOD)
