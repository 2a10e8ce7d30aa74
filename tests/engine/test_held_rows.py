"""An open transaction on one row holds up that row's work, and no other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import psycopg
import pytest

import rota
from rota.engine.loops.definitions import Definitions
from rota.engine.loops.promoter import Promoter
from rota.engine.loops.upkeep import Upkeep
from rota.engine.processes.parent_lease import ParentLease
from rota.engine.processes.worker_page import SharedPage
from rota.testing.patience import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]


@pytest.fixture
def holder(connect: Connect) -> Iterator[Connection]:
    """Somebody who leaves a transaction open in psql."""
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


async def test_the_promoter_passes_over_a_held_run_and_does_not_spin(
    app: rota.App, engine: Engine, holder: Connection
) -> None:
    engine.job("work")
    held, other = (engine.enqueue(delay="60 seconds") for _ in range(2))
    engine.advance(61)
    holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [held])
    promoter = Promoter(app.database, poll_seconds=10)
    await app.database.open()
    assert 0.2 < await promoter.run_once() <= 1
    assert (engine.state(other), engine.state(held)) == ("queued", "scheduled")
    holder.rollback()
    assert await promoter.run_once() == 10
    assert engine.state(held) == "queued"


async def test_sweeping_passes_over_what_is_held(
    app: rota.App, engine: Engine, holder: Connection
) -> None:
    """A request to cancel that came late, of a held run; beside one that is free."""
    engine.job("work")
    worker = engine.worker()
    held, free = (engine.enqueue() for _ in range(2))
    claims = engine.claim(worker)
    for run in (held, free):
        engine.rows(
            "INSERT INTO rota.cancel_requests (run_id, attempt, worker, requested_by)"
            " VALUES (%s, 0, %s, 'ada')",
            run,
            worker,
        )
    engine.hand_back(worker, *claims)
    engine.rows("UPDATE rota.cancel_requests SET attempt = 0")
    holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [held])
    await app.database.open()
    await Upkeep(app.database, unknown_job_seconds=60, refused_payload_seconds=60).run_once()
    assert (engine.state(free), engine.state(held)) == ("cancelled", "queued")
    holder.rollback()
    await Upkeep(app.database, unknown_job_seconds=60, refused_payload_seconds=60).run_once()
    assert engine.state(held) == "cancelled"


async def test_one_duty_that_fails_keeps_no_other_from_being_done(
    app: rota.App, engine: Engine, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    engine.job("work")
    await app.database.open()
    engine.count_depths()
    engine.enqueue()
    engine.count_depths()
    engine.rows("UPDATE rota.count_marks SET counted_at = '2000-01-01'")
    engine.rows("INSERT INTO rota.count_changes (name, amount) VALUES ('x', 1)")
    engine.rows("ALTER FUNCTION rota.count_depths(double precision) SET lock_timeout = '100ms'")
    holder.execute("UPDATE rota.depths SET held = 7")
    engine.enqueue()
    upkeep = Upkeep(app.database, unknown_job_seconds=60, refused_payload_seconds=60)
    await upkeep.run_once()
    await upkeep.run_once()
    assert engine.one("SELECT amount FROM rota.counts WHERE name = 'x'") == 1
    lines = [message for message in caplog.messages if "an upkeep task failed" in message]
    assert ["depths" in lines[0], "parking" in lines[1]] == [True, True]
    assert len(lines) == 2  # both need that row; each is told once


async def test_a_held_job_keeps_no_other_from_being_registered(
    make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    def declare(app: rota.App, priority: int) -> None:
        @app.job(name="held", priority=priority)
        async def held() -> None: ...

        @app.job(name="free", priority=priority)
        async def free() -> None: ...

    before, after = make_app(), make_app()
    declare(before, 3)
    await before.database.open()
    declare(after, 7)
    holder.execute("UPDATE rota.jobs SET description = 'x' WHERE name = 'held'")
    await after.database.open()
    priorities = "SELECT name, priority FROM rota.jobs WHERE name IN ('held', 'free')"
    found = {row["name"]: row["priority"] for row in engine.rows(priorities)}
    assert found == {"free": 7, "held": 3}
    definitions = Definitions(after.database, after.config, after.registry, AsyncMock())
    await definitions.announce(engine.worker("held", "free"), after.registry.version)
    holder.rollback()
    await definitions.run_once()
    found = {row["name"]: row["priority"] for row in engine.rows(priorities)}
    assert found == {"free": 7, "held": 7}


async def test_a_held_init_schedule_waits_and_the_start_does_not(
    make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    app = make_app()

    @app.job(schedules=[rota.on_start("start")])
    async def prepare() -> None: ...

    @app.job(schedules=[rota.on_start("start")])
    async def other() -> None: ...

    await app.database.open()
    holder.execute("UPDATE rota.schedules SET overlap = 'queue_one' WHERE name = 'prepare'")
    definitions = Definitions(app.database, app.config, app.registry, AsyncMock())
    await definitions.announce(engine.worker("prepare", "other"), app.registry.version)
    jobs = "SELECT array_agg(job ORDER BY job) FROM rota.open_runs"
    assert engine.one(jobs) == ["other"]
    await definitions.run_once()
    assert engine.one(jobs) == ["other"]
    holder.rollback()
    await definitions.run_once()
    assert engine.one(jobs) == ["other", "prepare"]
    await definitions.run_once()
    assert engine.one(jobs) == ["other", "prepare"]


@pytest.mark.parametrize("how", ["succeeds", "fails", "is retried"])
async def test_a_run_whose_row_is_held_keeps_its_worker_from_nothing_else(
    make_app: MakeApp, holder: Connection, how: str
) -> None:
    """Its end waits for the holder; the runs beside it end, and others are claimed."""
    app = make_app()
    go = asyncio.Event()

    @app.job(
        max_attempts=2 if how == "is retried" else 1, backoff=rota.Backoff("fixed", 0.01, jitter=0)
    )
    async def held() -> None:
        if go.is_set():
            return
        await go.wait()
        if how != "succeeds":
            raise RuntimeError

    @app.job
    async def quick() -> None: ...

    async with app, app.worker():
        first = await held.enqueue()
        await eventually(lambda: _is_running(app, first))
        holder.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [first.id])
        go.set()
        for _ in range(3):
            await (await quick.enqueue()).wait(timeout=20)
        assert (await app.runs.get(first.id)).state == "running"
        holder.rollback()
        ended = await app.runs.wait(first.id, 20)
        assert ended.state == ("failed" if how == "fails" else "succeeded")


async def test_a_worker_that_stops_does_not_forget_what_it_could_not_write(
    make_app: MakeApp, holder: Connection, engine: Engine
) -> None:
    """It stops without waiting for the holder; the run ends as its handler did."""
    app = make_app()
    go = asyncio.Event()

    @app.job(max_attempts=1)
    async def held() -> str:
        await go.wait()
        return "whole"

    async with app:
        async with app.worker():
            run = await held.enqueue()
            await eventually(lambda: _is_running(app, run))
            holder.execute("SELECT FROM rota.open_runs FOR UPDATE")
            go.set()
            await eventually(lambda: engine.one("SELECT count(*) FROM rota.kept_ends") == 1)
        async with app.worker():
            engine.rescue(everywhere=True)
            assert engine.state(run.id) == "running"
            holder.rollback()
            assert await run.wait(timeout=30) == "whole"
    assert engine.attempt_states(run.id) == ["succeeded"]


async def _is_running(app: rota.App, run: rota.Run) -> None:
    assert (await app.runs.get(run.id)).state == "running"


@pytest.mark.both_loops
async def test_a_held_row_of_a_worker_is_no_outage(
    make_app: MakeApp, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease cannot be renewed, and the log says who keeps it from that; once."""
    caplog.set_level("INFO", "rota")
    app = make_app(**{"worker.lease_seconds": 1.5})
    is_over = asyncio.Event()

    @app.job
    async def long() -> None:  # as long as it runs, the worker keeps its number
        await is_over.wait()

    def said(text: str) -> list[str]:
        return [message for message in caplog.messages if text in message]

    async with app, app.worker() as worker:
        run = await long.enqueue()
        await eventually(lambda: _is_running(app, run))
        holder.execute("SELECT FROM rota.workers WHERE id = %s FOR UPDATE", [worker.id])
        pid = holder.info.backend_pid
        await eventually(lambda: len(said("an open transaction has locked the worker's row")) > 0)
        holder.rollback()
        await eventually(lambda: len(said("the lease is being renewed again")) > 0)
        is_over.set()
        await run.wait(timeout=20)
    (line,) = said("an open transaction has locked the worker's row")
    assert f"pid={pid}" in line
    assert "FOR UPDATE" in line
    assert not said("the database is")


async def test_a_held_row_costs_no_other_worker_of_a_supervisor_its_lease(
    app: rota.App, engine: Engine, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await app.database.open()
    made = [SharedPage.create(1) for _ in range(2)]
    pages = [page for page, _ in made]
    for _, fd in made:
        os.close(fd)
    lease = ParentLease(app.database, lease_seconds=0.3)
    for page in pages:
        page.worker = engine.worker()
        lease.watch(page, os.getpid())
    holder.execute("SELECT FROM rota.workers WHERE id = %s FOR UPDATE", [pages[0].worker])
    lease.start()
    try:
        await eventually(lambda: pages[1].renewed_at > 0 and len(caplog.messages) > 0)
        assert pages[0].renewed_at == 0
        holder.rollback()
        await eventually(lambda: pages[0].renewed_at > 0)
    finally:
        lease.stop(10)
    assert any(
        "an open transaction has locked the worker's row" in message for message in caplog.messages
    )
    assert not any("the database is" in message for message in caplog.messages)


async def test_a_held_row_of_a_worker_that_has_ended_keeps_no_other_from_being_declared_lost(
    app: rota.App, engine: Engine, holder: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await app.database.open()
    page, fd = SharedPage.create(1)
    os.close(fd)
    held, free = engine.worker(), engine.worker()
    lease = ParentLease(app.database, lease_seconds=30)
    holder.execute("SELECT FROM rota.workers WHERE id = %s FOR UPDATE", [held])
    for worker in (held, free):
        page.worker = worker
        lease.ended(page)
    assert await asyncio.to_thread(lease.run_once)
    states = {row["id"]: row["state"] for row in engine.rows("SELECT id, state FROM rota.workers")}
    assert states == {held: "live", free: "lost"}
    (line,) = [message for message in caplog.messages if "cannot be declared lost" in message]
    assert f"pid={holder.info.backend_pid}" in line
    lease._close()


@pytest.mark.both_loops
async def test_a_worker_whose_row_is_held_goes_on(
    make_app: MakeApp, holder: Connection, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """More than it has slots for, a job that is declared meanwhile, a suspect: none of it waits for
    whoever holds the row, but for what is written there."""
    caplog.set_level("INFO", "rota")
    app = make_app(**{"worker.concurrency": 2})

    @app.job
    async def work() -> None:
        await asyncio.sleep(0.05)

    async with app, app.worker() as worker:
        await eventually(
            lambda: engine.one("SELECT is_waiting FROM rota.workers WHERE id = %s", worker.id)
        )
        holder.execute("SELECT FROM rota.workers WHERE id = %s FOR UPDATE", [worker.id])
        for _ in range(3):
            runs = [await work.enqueue() for _ in range(9)]
            for run in runs:
                await run.wait(timeout=20)

        @app.job
        async def added() -> str:
            return "known"

        assert await (await added.enqueue()).wait(timeout=20) == "known"
        holder.rollback()
        query = "SELECT 'added' = ANY (jobs) FROM rota.workers WHERE id = %s"
        await eventually(lambda: engine.one(query, worker.id))
    assert not [
        message
        for message in caplog.messages
        if "failed" in message or "the database is" in message
    ]


@pytest.mark.both_loops
async def test_a_row_that_is_held_longer_than_its_lease(
    make_app: MakeApp, holder: Connection, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """What runs ends; then the worker goes on under another number. It says so, and who it was."""
    caplog.set_level("INFO", "rota")
    app = make_app(**{"worker.lease_seconds": 1.5})
    is_over = asyncio.Event()

    @app.job
    async def long() -> str:
        await is_over.wait()
        return "whole"

    @app.job
    async def work() -> None: ...

    async with app, app.worker() as worker:
        first = worker.id
        run = await long.enqueue()
        await eventually(lambda: _is_running(app, run))
        holder.execute("SELECT FROM rota.workers WHERE id = %s FOR UPDATE", [first])
        expired = "SELECT lease_expires_at < clock_timestamp() FROM rota.workers WHERE id = %s"
        await eventually(lambda: engine.one(expired, first))
        is_over.set()
        assert await run.wait(timeout=20) == "whole"
        await (await work.enqueue()).wait(timeout=30)
        assert worker.id != first
        holder.rollback()
        lost = "SELECT state FROM rota.workers WHERE id = %s"
        await eventually(lambda: engine.one(lost, first) == "lost", timeout=30)
        await (await work.enqueue()).wait(timeout=30)
    assert engine.attempt_states(run.id) == ["succeeded"]
    (line,) = [
        message
        for message in caplog.messages
        if "an open transaction has locked the worker's" in message
    ]
    assert f"pid={holder.info.backend_pid}" in line
    assert (
        len([message for message in caplog.messages if "registering under a new id" in message])
        == 1
    )
    assert not [message for message in caplog.messages if "the database is" in message]
