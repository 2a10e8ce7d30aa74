"""The two jobs that every worker knows: nightly retention of runs and of log lines.

They are Python and not SQL jobs, because DETACH … CONCURRENTLY cannot be part of a transaction.
They have a queue of their own, which every worker serves, and take no slot from the handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from rota.config import Config
from rota.errors import WrongState
from rota.jobs.definition import JobDefinition
from rota.model.queue import SYSTEM_QUEUE
from rota.model.retention import RetentionResult
from rota.postgres.retention.retention import configure, retain
from rota.postgres.sessions.pool import Database
from rota.postgres.steps import run_steps

PRUNE_RUNS, PRUNE_LOGS = "rota.prune_runs", "rota.prune_logs"

Beside = Callable[[], AbstractContextManager[None]]


def served(queues: Sequence[str]) -> list[str]:
    """Return the queues that a worker configured with these queues claims from; an empty list means
    all."""
    return [*queues, SYSTEM_QUEUE] if queues else []


class BuiltInJobs:
    """The definitions of these jobs. Their rows in rota.jobs exist already, so no application
    declares them."""

    def __init__(self, database: Database, config: Config) -> None:
        self._database = database
        self._config = config

    async def prepare(self) -> None:
        """Store the retention settings; those of the worker that started last apply."""
        await run_steps(self._database, configure(self._config.retention))

    @property
    def names(self) -> list[str]:
        return [PRUNE_LOGS, PRUNE_RUNS]

    def definitions(self, beside: Beside) -> Iterable[JobDefinition]:
        """`beside` opens another slot while it is entered."""

        async def prune_runs() -> dict[str, object]:
            with beside():
                return await self._retain(runs=True, logs=False)

        async def prune_logs() -> dict[str, object]:
            with beside():
                return await self._retain(runs=False, logs=True)

        for name, function in ((PRUNE_RUNS, prune_runs), (PRUNE_LOGS, prune_logs)):
            yield JobDefinition.of(function, self._config, {"name": name, "max_attempts": 1})

    async def _retain(self, *, runs: bool, logs: bool) -> dict[str, object]:
        try:
            steps = retain(self._config.retention, runs=runs, logs=logs)
            done = await run_steps(self._database, steps, "rota retention")
        except WrongState as error:
            return {"skipped": str(error)}
        return _summary(done)


def _summary(done: RetentionResult) -> dict[str, object]:
    waiting = [item.partition for item in done.items if item.note is not None]
    dropped = [item.partition for item in done.items if item.action == "drop" and item.note is None]
    deleted = sum(item.rows for item in done.items if item.action == "delete")
    return {"dropped": dropped, "deleted_rows": deleted, "left": waiting}
