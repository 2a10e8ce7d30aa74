"""A runner without a worker: what it needs, and where its ends go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from typing import Any

import rota
from rota.engine.attempts.attempt import Services
from rota.engine.attempts.observer import AttemptObserver
from rota.engine.attempts.progress import ProgressBoard
from rota.engine.attempts.runner import Runner
from rota.engine.executors.base import ExecutorContext
from rota.engine.executors.threads import ThreadPool
from rota.engine.logs.log_buffer import LogBuffer
from rota.engine.loops.sql_jobs import SqlJobs
from rota.model.outcome import Outcome
from rota.model.run import Claim
from rota.postgres.sessions.session_cache import SessionCache
from rota.telemetry.lines import LEVELS
from tests.engine.claiming.claims import make_claim


class Sink:
    """Notes what a feeder would write."""

    def __init__(self) -> None:
        self.successes: list[str | None] = []
        self.outcomes: list[Outcome] = []
        self.written: list[str] = []
        self.wakes = 0

    def succeeded(self, claim: Claim, duration_ms: float, result: str | None) -> None:
        self.successes.append(result)

    def ended(self, claim: Claim, duration_ms: float, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def already_ended(self, claim: Claim, duration_ms: float, state: str = "succeeded") -> None:
        self.written.append(state)

    def wake(self) -> None:
        self.wakes += 1

    @property
    def is_empty(self) -> bool:
        return not (self.successes or self.outcomes or self.written)


def make_services(app: rota.App) -> Services:
    config, database = app.config, app.database
    return Services(
        config=config,
        database=database,
        sessions=SessionCache(lambda: database.url, worker=1, size=1),
        logs=LogBuffer(
            database, buffer_lines=100, buffer_bytes=10**6, flush_seconds=1, line_bytes=10_000
        ),
        progress=ProgressBoard(database),
        stored_level=LEVELS["info"],
        lease_seconds=30.0,
        random_number=lambda: 0.5,
    )


def make_means(app: rota.App) -> ExecutorContext:
    return ExecutorContext(app.config, app.database, ThreadPool(), None)


def make_runner(app: rota.App, sink: Sink, observers: Sequence[AttemptObserver] = ()) -> Runner:
    async def nobody() -> bool:
        return True

    runner = Runner(
        registry=app.registry,
        services=make_services(app),
        means=make_means(app),
        worker=1,
        sql_jobs=SqlJobs(app.database, nobody),
        observers=observers,
    )
    runner.serve(sink)
    return runner


def claim_of(job: Any, payload: dict[str, Any] | None = None, **fields: Any) -> Claim:
    return make_claim(job=job.name, payload=json.dumps(payload or {}).encode(), **fields)


def start(
    runner: Runner, claim: Claim, commit: Awaitable[None] | None = None
) -> asyncio.Task[None]:
    """As a slot runs it."""

    async def slot() -> None:
        task = asyncio.current_task()
        assert task is not None
        await runner.run(claim, task, commit)

    return asyncio.create_task(slot())
