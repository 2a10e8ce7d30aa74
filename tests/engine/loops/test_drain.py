from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.engine.processes.test_supervisor import Supervised, supervised
from tests.workers import WorkerProcess

__all__ = ["supervised"]

Conn = psycopg.Connection[Any]


class Holding:
    """A job whose runs end when they are told to."""

    def __init__(self, app: rota.App) -> None:
        self.app = app
        self.release = asyncio.Event()
        self.started = 0

        @app.job
        async def hold() -> None:
            self.started += 1
            await self.release.wait()

        self.job = hold

    async def state(self, run: rota.Run) -> str:
        return (await self.app.runs.get(run.id)).state


async def until_seen(app: rota.App, worker: int) -> None:
    async def seen() -> None:
        found = await app.workers.get(worker)
        assert found.drain_seen_at is not None

    await eventually(seen)


async def test_a_draining_worker_finishes_what_runs_and_claims_no_more(app: rota.App) -> None:
    holding = Holding(app)
    first = await holding.job.enqueue()
    async with app.worker() as worker:
        assert worker.id is not None
        await eventually(lambda: holding.started == 1)
        await app.workers.by("alice").drain(worker.id, "new kernel")
        await until_seen(app, worker.id)
        second = await holding.job.enqueue()
        holding.release.set()
        await first.wait(10)
        found = await app.workers.get(worker.id)
        assert (found.state, found.is_draining, found.is_to_stop) == ("live", True, False)
        assert (found.drain_requested_by, found.drain_reason) == ("alice", "new kernel")
        assert await holding.state(second) == "queued"
        assert (await app.queues.list())[0].workers == 0

        await app.workers.resume(worker.id)
        await second.wait(10)
        assert not (await app.workers.get(worker.id)).is_draining


async def test_what_was_claimed_and_not_started_goes_back(make_app: MakeApp, conn: Conn) -> None:
    app = make_app(worker={"concurrency": 1})
    holding = Holding(app)
    runs = [await holding.job.enqueue() for _ in range(3)]
    async with app.worker() as worker:
        assert worker.id is not None
        await eventually(lambda: holding.started == 1)
        await app.workers.drain(worker.id)
        await until_seen(app, worker.id)
        await eventually(
            lambda: (
                conn.execute(
                    "SELECT count(*) FROM rota.open_runs WHERE worker IS NOT NULL"
                ).fetchone()
                == (1,)
            )
        )
        assert [await holding.state(run) for run in runs].count("queued") == 2
        holding.release.set()


async def test_it_ticks_no_more_until_it_is_resumed(app: rota.App, conn: Conn) -> None:
    holding = Holding(app)
    holding.release.set()
    async with app.worker() as worker:
        assert worker.id is not None
        await app.workers.drain(worker.id)
        await until_seen(app, worker.id)
        assert worker._parts.background.scheduler._task is None
        conn.execute(
            "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('often', 'hold', 1)"
        )
        assert (await app.schedules.get("often")).state == "pending"
        await app.workers.resume(worker.id)
        await eventually(lambda: holding.started >= 1)


async def test_with_stop_it_ends_when_what_runs_has_ended(make_app: MakeApp) -> None:
    # A limit that a shutdown would keep: a drain takes its time.
    app = make_app(**{"worker.shutdown_seconds": 0.0})
    holding = Holding(app)
    run = await holding.job.enqueue()
    worker = app.worker()
    await worker.start()
    assert worker.id is not None
    await eventually(lambda: holding.started == 1)
    await app.workers.drain(worker.id)
    await app.workers.drain(worker.id, stop=True)
    await until_seen(app, worker.id)
    assert (await app.workers.get(worker.id)).running == 1
    holding.release.set()
    await asyncio.wait_for(worker.wait_stopped(), 20)
    assert await holding.state(run) == "succeeded"
    assert (await app.workers.get(worker.id)).state == "gone"
    with pytest.raises(rota.WrongState, match="is gone"):
        await app.workers.resume(worker.id)


async def test_at_once_it_does_not_wait_for_what_runs_longer(make_app: MakeApp) -> None:
    app = make_app(**{"worker.shutdown_seconds": 0.0})
    holding = Holding(app)
    run = await holding.job.enqueue()
    worker = app.worker()
    await worker.start()
    assert worker.id is not None
    await eventually(lambda: holding.started == 1)
    await app.workers.stop(worker.id, "new kernel")
    await until_seen(app, worker.id)
    assert not await app.workers.stop(worker.id)
    await app.workers.by("ada").stop(worker.id, at_once=True)
    await asyncio.wait_for(worker.wait_stopped(), 20)
    found = await app.runs.get(run.id)
    assert (found.state, found.attempts_used) == ("queued", 0), "no attempt is spent"
    gone = await app.workers.get(worker.id)
    assert (gone.state, gone.is_to_hurry, gone.drain_requested_by) == ("gone", True, "ada")
    assert gone.drain_reason == "new kernel"


async def test_a_stop_that_is_taken_back(app: rota.App) -> None:
    holding = Holding(app)
    run = await holding.job.enqueue()
    async with app.worker() as worker:
        assert worker.id is not None
        await eventually(lambda: holding.started == 1)
        await app.workers.drain(worker.id, stop=True)
        await until_seen(app, worker.id)
        await app.workers.resume(worker.id)
        holding.release.set()
        await run.wait(10)
        again = await holding.job.enqueue()
        await again.wait(10)
        assert (await app.workers.get(worker.id)).state == "live"


async def test_a_new_identity_still_drains(app: rota.App, conn: Conn) -> None:
    holding = Holding(app)
    async with app.worker() as worker:
        first = worker.id
        assert first is not None
        await app.workers.by("alice").drain(first, "why")
        await until_seen(app, first)
        conn.execute(
            "UPDATE rota.workers SET state = 'lost', ended_at = clock_timestamp(),"
            " is_waiting = false WHERE id = %s",
            [first],
        )
        await eventually(lambda: worker.id not in (None, first))
        run = await holding.job.enqueue()
        found = await app.workers.get(worker.id or 0)
        assert (found.is_draining, found.drain_requested_by) == (True, "alice")
        await app.workers.resume(found.id)
        holding.release.set()
        await run.wait(10)


async def test_only_live_workers_can_be_told(app: rota.App, conn: Conn) -> None:
    with pytest.raises(rota.WorkerNotFound, match="no worker 4"):
        await app.workers.drain(4)
    with pytest.raises(rota.WorkerNotFound):
        await app.workers.get(4)
    with pytest.raises(rota.WorkerNotFound):
        await app.workers.resume(4)
    row = conn.execute("SELECT rota.register_worker('w', 'h', 1, '', '{}', '{}', 1, 30)").fetchone()
    assert row is not None
    assert not await app.workers.resume(row[0])
    assert await app.workers.drain(row[0], stop=True)
    assert not await app.workers.drain(row[0])
    audit = conn.execute("SELECT action, object_id, after FROM rota.audit ORDER BY id").fetchall()
    assert audit == [
        (
            "worker.drained",
            str(row[0]),
            {"is_draining": True, "is_to_stop": True, "is_to_hurry": False},
        ),
    ]


def test_a_process_ends_in_order(worker_process: Callable[..., WorkerProcess], conn: Conn) -> None:
    process = worker_process("tests.apps.basic:app")
    conn.execute("SELECT rota.drain_worker(%s, stop => true)", [process.id])
    assert process.wait() == 0


def test_a_supervisor_does_not_replace_whom_an_operator_stopped(
    supervised: Callable[..., Supervised],
) -> None:
    these = supervised()
    first, second = these.workers()
    these.conn.execute("SELECT rota.drain_worker(%s, stop => true)", [first])
    eventually_sync(lambda: list(these.workers("gone")) == [first], 30)
    ended = these.wait_ended(these.enqueue("sleep", seconds=0))
    assert ended["worker"] == second
    eventually_sync(lambda: "not replaced" in these.output, 30)
    assert list(these.workers()) == [second]
    these.conn.execute("SELECT rota.drain_worker(%s, stop => true)", [second])
    assert these.process.wait(30) == 0
