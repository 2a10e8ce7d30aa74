"""Run what is due, in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.app import App
from rota.errors import RunNotFound
from rota.model.run import RunInfo
from rota.model.states import END_STATES, OPEN_STATES
from rota.postgres.testing import left_to_run
from rota.testing.patience import eventually

T = TypeVar("T")
_ALL = 1_000_000


async def run_due(app: App, timeout: float = 30.0) -> None:
    """Execute all due runs, and the runs that they enqueue, until none are left. Runs that are
    scheduled for later remain: call `Clock.advance`, then `run_due` again."""

    async def nothing_left() -> None:
        left = await app.database.run(left_to_run(app.registry.all_names()))
        assert not left, f"not finished: {left}"

    async with app.worker():
        await eventually(nothing_left, timeout)


def run_due_sync(app: App, timeout: float = 30.0) -> None:
    """The same for tests without an event loop."""
    _in_loop(app, lambda: run_due(app, timeout))


async def tick(app: App) -> list[RunInfo]:
    """Process all due schedules, as a worker would; return the runs that were enqueued. They are
    not executed."""
    from rota.engine.loops.scheduler import Scheduler

    newest = await _newest(app)
    scheduler = Scheduler(app.database, tick_seconds=1)
    while await scheduler.tick():
        pass
    return [run for run in await _after(app, newest) if run.schedule is not None]


def tick_sync(app: App) -> list[RunInfo]:
    return _in_loop(app, lambda: tick(app))


async def run_all(app: App, timeout: float = 30.0) -> list[RunInfo]:
    """Tick, then run what is due; return the runs that ended, in any state, oldest first."""
    newest = await _newest(app)
    waiting = await app.runs.list(states=OPEN_STATES, limit=_ALL)
    await tick(app)
    await run_due(app, timeout)
    known = [await _now(app, run) for run in reversed(waiting)]
    found = [*known, *await _after(app, newest)]
    return [run for run in found if run is not None and run.state in END_STATES]


def run_all_sync(app: App, timeout: float = 30.0) -> list[RunInfo]:
    return _in_loop(app, lambda: run_all(app, timeout))


def _in_loop(app: App, work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        try:
            return await work()
        finally:
            # The pools belong to this short-lived loop; the next use opens them again.
            await app.runs.close()
            await app.database.close()

    return asyncio.run(run())


async def _now(app: App, run: RunInfo) -> RunInfo | None:
    """None: a handler has deleted it."""
    try:
        return await app.runs.get(run.id)
    except RunNotFound:
        return None


async def _newest(app: App) -> int:
    found = await app.runs.list(limit=1)
    return found[0].id if found else 0


async def _after(app: App, run_id: int) -> list[RunInfo]:
    return await app.runs.list(order="oldest", before_id=run_id, limit=_ALL)
