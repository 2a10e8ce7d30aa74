"""Suspects in a worker: beside its slots, in a process of their own or in its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.attempts.isolation import inline_jobs
from rota.postgres.pipeline.exchange import Exchange
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.engine import bodies
from tests.sql_engine import Engine

ONE_SLOT = {"worker.concurrency": 1}


_BLOCKED = """
SELECT count(*) FROM pg_stat_activity
WHERE cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%rota.claim_suspect%'
"""


async def suspect(job: Any, engine: Engine, max_attempts: int = 2, **payload: Any) -> rota.Run:
    """A run that was lost with its worker, which ran nothing else."""
    run: rota.Run = await job.options(max_attempts=max_attempts).enqueue(**payload)
    worker = engine.worker(run.job)
    engine.claim_one(worker, jobs=[run.job])
    engine.lose(worker)
    engine.rescue()
    assert engine.run(run.id)["held_by"] == "suspect"
    return run


async def test_a_closure_is_isolated_in_the_worker_beside_its_slots(
    make_app: MakeApp, engine: Engine
) -> None:
    app, gate, started = make_app(**ONE_SLOT), asyncio.Event(), []

    @app.job
    async def hold(n: int) -> int:
        started.append(n)
        await gate.wait()
        return os.getpid()

    run = await suspect(hold, engine, n=1)
    async with app.worker() as worker:
        await eventually(lambda: started == [1])
        # The only slot is free.
        other = await hold.enqueue(n=2)
        await eventually(lambda: started == [1, 2])
        assert (await app.workers.list())[0].isolating_run == run.id
        assert (await app.runs.details(run.id)).isolation == "inline"
        assert engine.run(run.id)["worker"] == worker.id
        gate.set()
        assert await run.wait(20) == os.getpid()
        await other.wait(20)
        assert (await app.workers.list())[0].isolating_run is None


async def test_a_function_of_a_module_is_isolated_in_a_process(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**ONE_SLOT)
    job = app.job(bodies.own_pid)
    runs = [await suspect(job, engine, n=n) for n in range(2)]
    async with app.worker(app_ref="tests.engine.bodies"):
        pids = [(await run.wait(30))[1] for run in runs]
    assert len({*pids, os.getpid()}) == 3, "one process for each"


async def test_where_no_process_can_be_started_it_is_isolated_in_the_worker(
    make_app: MakeApp, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python/here")
    app = make_app(**ONE_SLOT)
    run = await suspect(app.job(bodies.own_pid), engine, n=1)
    async with app.worker(app_ref="tests.engine.bodies"):
        assert await run.wait(30) == [1, os.getpid()]
    assert engine.attempt_states(run.id) == ["lost", "cancelled", "succeeded"]
    assert engine.run(run.id)["attempts_used"] == 2


async def test_a_run_that_kills_its_own_process_ends_alone(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**ONE_SLOT)
    run = await suspect(app.job(bodies.die), engine, max_attempts=3)
    async with app.worker(app_ref="tests.engine.bodies"):
        with pytest.raises(rota.RunFailed, match="killed by SIGKILL"):
            await run.wait(30)
    assert engine.attempt_states(run.id) == ["lost"] * 3
    (row,) = engine.rows(
        "SELECT outcome, sum(attempts)::int AS n FROM rota.rollup_minutes GROUP BY 1"
    )
    assert row == {"outcome": "lost", "n": 3}, "each is counted once"


async def test_an_exception_in_the_child_is_an_ordinary_failure(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**ONE_SLOT)
    run = await suspect(app.job(bodies.fail), engine, words="no")
    async with app.worker(app_ref="tests.engine.bodies"):
        with pytest.raises(rota.RunFailed, match="no"):
            await run.wait(30)
    assert engine.attempt_states(run.id) == ["lost", "failed"]


async def test_a_shutdown_leaves_it_a_suspect(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**ONE_SLOT, **{"worker.shutdown_seconds": 0})
    run = await suspect(app.job(bodies.last_for_ever), engine)
    async with app.worker(app_ref="tests.engine.bodies"):
        await eventually(lambda: engine.state(run.id) == "running")
    shown = engine.run(run.id)
    assert (shown["state"], shown["held_by"], shown["attempts_used"]) == ("queued", "suspect", 1)


async def test_a_draining_worker_isolates_nothing(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**ONE_SLOT)
    job = app.job(bodies.own_pid)
    async with app.worker() as worker:
        assert worker.id is not None
        await app.workers.drain(worker.id)
        await eventually(lambda: engine.one("SELECT drain_seen_at FROM rota.workers") is not None)
        run = await suspect(job, engine, n=1)
        isolation = worker._identity.isolation  # type: ignore[union-attr]
        await isolation.run_once()
        assert engine.run(run.id)["held_by"] == "suspect"
        await app.workers.resume(worker.id)
        await run.wait(20)


async def test_a_claim_whose_answer_was_lost_is_run(
    make_app: MakeApp, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, claim, claimed = make_app(**ONE_SLOT), Exchange.claim_suspect, []

    async def break_once(*arguments: Any) -> Any:
        found = await claim(*arguments)
        if found and not claimed:
            claimed.extend(found)
            raise psycopg.OperationalError("the connection is lost")
        return found

    monkeypatch.setattr(Exchange, "claim_suspect", break_once)
    run = await suspect(app.job(bodies.own_pid), engine, n=1)
    async with app.worker():
        await run.wait(20)
    assert claimed[0].id == run.id
    assert [row["attempt"] for row in engine.attempts(run.id)] == [1, 2]


def test_what_a_child_can_run(make_app: MakeApp) -> None:
    app = make_app()

    @app.job
    async def closure() -> None: ...

    app.job(executor="process")(bodies.tell)
    app.job(bodies.own_pid)
    app.job(name="no name")(lambda: None)
    definitions = {it.name: it for it in app.registry}
    assert inline_jobs(definitions, has_processes=True) == ["closure", "no name"]
    assert set(inline_jobs(definitions, has_processes=False)) == {"closure", "no name", "own_pid"}


async def test_an_answer_from_before_its_end_starts_nothing_again(
    make_app: MakeApp, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim goes over another connection than the end: the server answers with the run whose
    end is being written, and the end is confirmed before that answer is read."""
    app, started = make_app(), []

    @app.job
    async def once() -> None:
        started.append(1)

    run = await suspect(once, engine)
    claim_suspect, answers = Exchange.claim_suspect, []

    async def late(feed: Exchange, *arguments: Any) -> Any:
        answers.append(answers[0] if len(answers) == 1 else await claim_suspect(feed, *arguments))
        if len(answers) == 2:
            await run.wait(20)
        return answers[-1]

    monkeypatch.setattr(Exchange, "claim_suspect", late)
    async with app.worker():
        await eventually(lambda: len(answers) >= 3)
    assert started == [1]


async def test_the_next_suspect_does_not_wait_for_a_poll(make_app: MakeApp, engine: Engine) -> None:
    """Nor for its call: it was called out long ago, and the end of the one before calls nobody."""
    app = make_app(**{"worker.poll_seconds": 60.0, "worker.lease_seconds": 60.0})

    @app.job
    async def work(n: int) -> int:
        return n

    runs = [await suspect(work, engine, n=n) for n in range(4)]
    async with app.worker():
        assert [await run.wait(30) for run in runs] == [0, 1, 2, 3]


async def test_a_suspect_whose_tenant_is_resumed_does_not_wait_for_a_poll(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**{"worker.poll_seconds": 60.0, "worker.lease_seconds": 60.0})

    @app.job
    async def work() -> str:
        return "done"

    run = await suspect(work, engine)
    engine.conn.execute("UPDATE rota.open_runs SET tenant = 'acme'")
    engine.one("SELECT rota.pause_tenant('acme')")
    async with app.worker():
        await eventually(lambda: engine.one("SELECT bool_or(is_waiting) FROM rota.workers") is True)
        engine.one("SELECT rota.resume_tenant('acme')")
        assert await run.wait(30) == "done"


async def test_a_suspect_does_not_wait_for_a_poll_after_its_workers_row_was_held(
    make_app: MakeApp, engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """Nobody calls when that transaction ends."""
    app = make_app(**{"worker.poll_seconds": 60.0, "worker.lease_seconds": 60.0})

    @app.job
    async def work() -> str:
        return "done"

    holder = connect(autocommit=False)
    run = await suspect(work, engine)
    engine.conn.execute("UPDATE rota.open_runs SET tenant = 'acme'")
    engine.one("SELECT rota.pause_tenant('acme')")
    async with app.worker() as worker:
        waiting = "SELECT is_waiting FROM rota.workers WHERE id = %s"
        await eventually(lambda: engine.one(waiting, worker.id) is True)
        holder.execute("SELECT FROM rota.workers WHERE id = %s FOR UPDATE", [worker.id])
        engine.one("SELECT rota.resume_tenant('acme')")
        await eventually(lambda: engine.one(_BLOCKED) > 0)
        await eventually(lambda: engine.one(_BLOCKED) == 0)
        holder.rollback()
        assert await run.wait(30) == "done"
