"""What operators change in the database reaches the workers, and what code says reaches it."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock

import pytest

import rota
from rota.engine.loops import definitions as module
from rota.engine.loops.definitions import Definitions
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

HOURS = {"kind": "fixed", "base": 7200, "cap": 7200, "jitter": 0}


async def test_an_operators_timeout_and_backoff_reach_the_next_attempt(
    app: rota.App, engine: Engine
) -> None:
    @app.job(max_attempts=2, timeout=60, backoff=lambda attempt: 3600)
    async def slow() -> None:
        await asyncio.sleep(30)

    await app.jobs.update("slow", timeout=0.2, backoff=HOURS)
    async with app.worker():
        run = await slow.enqueue()
        await eventually(lambda: engine.state(run.id) == "scheduled")
    assert engine.attempt_states(run.id) == ["timed_out"]
    wait = "SELECT extract(epoch FROM run_at - rota.now()) FROM rota.runs WHERE id = %s"
    assert 3700 < float(engine.one(wait, run.id)) <= 7200


async def test_a_running_worker_hears_of_a_change_and_of_its_end(app: rota.App) -> None:
    @app.job(timeout=60)
    async def job() -> None: ...

    async with app.worker() as worker:
        current = worker._parts.definitions.current
        await app.jobs.update("job", timeout=5, backoff="fixed")
        await eventually(lambda: worker._parts.definitions.current["job"].timeout == 5)
        assert isinstance(current["job"].backoff, rota.Backoff)
        await app.jobs.update("job", reset=["timeout", "backoff"])
        await eventually(lambda: worker._parts.definitions.current["job"].timeout == 60)
        assert current["job"].backoff is None


async def test_a_backoff_written_past_the_edge_is_ignored(app: rota.App, engine: Engine) -> None:
    @app.job
    async def job() -> None: ...

    await app.database.open()
    engine.conn.execute("ALTER TABLE rota.jobs DISABLE TRIGGER jobs_before")
    engine.conn.execute(
        'UPDATE rota.jobs SET backoff = \'{"kind": "cubic"}\', edited = \'{"backoff": {}}\''
        " WHERE name = 'job'"
    )
    definitions = Definitions(app.database, app.config, app.registry, on_declared=AsyncMock())
    await definitions.announce(engine.worker("job"), app.registry.version)
    assert definitions.current["job"].backoff is None


async def test_a_worker_takes_over_when_newer_code_is_gone(
    make_app: MakeApp, engine: Engine
) -> None:
    old, new = make_app(), make_app()

    @old.job(name="job", priority=3)
    async def first() -> None: ...

    @new.job(name="job", priority=4)
    async def second() -> None: ...

    priority = "SELECT priority FROM rota.jobs WHERE name = 'job'"
    async with old.worker() as worker:
        async with new.worker():
            assert engine.one(priority) == 4
            await worker._parts.definitions.run_once()
            assert engine.one(priority) == 4
        await worker._parts.definitions.run_once()
        assert engine.one(priority) == 3


@pytest.fixture
def _only_when_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker would hear of by looking now and then comes too late for the test."""
    monkeypatch.setattr(module, "_PERIOD", 3600.0)


@pytest.mark.usefixtures("_only_when_called")
async def test_a_job_declared_after_the_start_is_run(app: rota.App, engine: Engine) -> None:
    async with app.worker() as worker:

        @app.job(queue="late")
        async def late() -> str:
            return "done"

        assert await (await late.enqueue()).wait(timeout=30) == "done"
        jobs = "SELECT 'late' = ANY (jobs) FROM rota.workers WHERE id = %s"
        assert engine.one(jobs, worker.id)
        assert (
            engine.one("SELECT count(*) FROM rota.workers w JOIN rota.builds b USING (build)") == 1
        )


@pytest.mark.usefixtures("_only_when_called")
async def test_a_job_declared_in_another_thread(app: rota.App) -> None:
    def late() -> str:
        return "done"

    async with app.worker():
        job = await asyncio.to_thread(app.job, late)
        assert await (await job.enqueue()).wait(timeout=30) == "done"


@pytest.mark.usefixtures("_only_when_called")
async def test_what_waited_for_a_job_is_run_when_it_is_declared(
    app: rota.App, make_app: MakeApp, engine: Engine
) -> None:
    other = make_app()

    @other.job(name="late", queue="q")
    async def elsewhere() -> None: ...

    run = await elsewhere.enqueue()
    async with app.worker():
        await eventually(lambda: engine.run(run.id)["held_by"] == "no_worker")

        @app.job(name="late", queue="q")
        async def late() -> None: ...

        await eventually(lambda: engine.state(run.id) == "succeeded")


@pytest.mark.usefixtures("_only_when_called")
async def test_a_job_declared_while_the_worker_takes_a_new_identity(app: rota.App) -> None:
    async with app.worker() as worker:
        first = worker.id
        assert worker._identity is not None
        worker._registration.lost(worker._identity)

        @app.job
        async def late() -> None: ...

        await (await late.enqueue()).wait(timeout=30)
        assert worker.id != first


async def test_a_worker_that_has_stopped_watches_no_declarations(app: rota.App) -> None:
    async with app.worker():
        pass

    @app.job
    async def late() -> None: ...

    assert app.registry._watchers == []
