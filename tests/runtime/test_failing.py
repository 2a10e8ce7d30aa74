"""Workers that are live and do not get their work done do not stay so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.store import prepared
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.engine import Engine
from tests.workers import WorkerProcess

Start = Callable[..., WorkerProcess]
# Enough for a turn on a busy machine: whoever is only slow is not in trouble.
PATIENCE = {"worker.patience_seconds": 5.0}


def take_away(conn: psycopg.Connection[Any], function: str) -> None:
    """A failure that does not pass."""
    conn.execute(f"ALTER FUNCTION rota.{function} RENAME TO gone".encode())


def test_a_feeder_that_only_fails_ends_the_process(
    worker_process: Start, engine: Engine, conn: psycopg.Connection[Any]
) -> None:
    worker = worker_process("tests.apps.basic:app", **PATIENCE)
    first = worker.id
    run = engine.enqueue("add", {"a": 1, "b": 2})
    eventually_sync(lambda: engine.state(run) == "succeeded")
    take_away(conn, "claim_runs")
    assert worker.wait(60) == 70
    assert "live but failing: giving up this identity" in worker.output
    assert worker.output.count("a new identity did not help: stopping") == 1
    assert worker.id > first
    assert engine.one("SELECT state FROM rota.workers WHERE id = %s", first) == "lost"


def test_one_that_recovers_lives_on(
    worker_process: Start, engine: Engine, conn: psycopg.Connection[Any]
) -> None:
    """Its runs are not kept from others meanwhile, and are done when it can again."""
    worker = worker_process("tests.apps.basic:app", **PATIENCE)
    first = worker.id
    take_away(conn, "claim_runs")
    eventually_sync(lambda: worker.id > first)
    conn.execute("ALTER FUNCTION rota.gone RENAME TO claim_runs")
    run = engine.enqueue("add", {"a": 1, "b": 2})
    eventually_sync(lambda: engine.state(run) == "succeeded")
    assert worker.returncode is None


async def test_in_somebodys_program_it_stops_and_says_so(
    make_app: MakeApp,
    engine: Engine,
    conn: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app(**PATIENCE)
    worker = app.worker()
    await worker.start()
    take_away(conn, "claim_runs")
    await worker.wait_stopped()
    assert "a new identity did not help: stopping" in caplog.text
    assert engine.one("SELECT count(*) FROM rota.workers WHERE state = 'live'") == 0


async def test_a_table_that_somebody_locks(
    make_app: MakeApp,
    engine: Engine,
    connect: Callable[..., psycopg.Connection[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim that stands still is called off; the worker does not keep its lease by that."""
    monkeypatch.setattr(prepared, "_ANSWER_SECONDS", 0.3)
    app = make_app(**{"worker.patience_seconds": 2.0})

    @app.job
    async def work() -> None: ...

    async with app.worker() as worker:
        first = worker.id
        holder = connect(autocommit=False)
        holder.execute("LOCK TABLE rota.open_runs IN ACCESS EXCLUSIVE MODE")
        await eventually(lambda: worker.id not in (None, first), timeout=60)
        holder.rollback()
        run = await work.enqueue()
        assert await run.wait(30) is None


LOOPS = {
    "scheduler": "hold_due",
    "promoter": "promote_runs",
    "rescuer": "mark_lost_workers",
    "upkeep": "count_depths",
}


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_loop_that_only_fails_is_seen_and_cuts_nothing_off(
    loop: str, make_app: MakeApp, engine: Engine, conn: psycopg.Connection[Any]
) -> None:
    app = make_app(**PATIENCE)
    is_over = asyncio.Event()

    @app.job
    async def long() -> str:
        await is_over.wait()
        return "whole"

    async with app.worker():
        run = await long.enqueue()
        await eventually(lambda: engine.state(run.id) == "running")
        take_away(conn, LOOPS[loop])
        query = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND trouble LIKE %s"
        await eventually(lambda: engine.one(query, f"%{loop}%") == 1, timeout=60)
        (shown,) = await app.workers.list(status="failing")
        assert shown.errors > 0
        is_over.set()
        assert await run.wait(30) == "whole"
    assert engine.attempt_states(run.id) == ["succeeded"]


STANDING = {"logs": "rota.logs", "scheduler": "rota.schedules"}


@pytest.mark.parametrize("loop", STANDING)
async def test_a_loop_that_stands_still_is_seen_and_begins_anew(
    loop: str,
    make_app: MakeApp,
    engine: Engine,
    connect: Callable[..., psycopg.Connection[Any]],
) -> None:
    """Somebody locks its table; what it has to do is done when they are gone, and once."""
    app = make_app(**PATIENCE)
    is_over = asyncio.Event()

    @app.job
    async def long(ctx: rota.Context) -> str:
        ctx.log.info("a line")
        await is_over.wait()
        return "whole"

    async with app.worker():
        holder = connect(autocommit=False)
        holder.execute(f"LOCK TABLE {STANDING[loop]} IN ACCESS EXCLUSIVE MODE".encode())
        run = await long.enqueue()
        await eventually(lambda: engine.state(run.id) == "running")
        query = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND trouble LIKE %s"
        await eventually(lambda: engine.one(query, f"%{loop}%") == 1, timeout=60)
        holder.rollback()
        well = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND trouble IS NULL"
        await eventually(lambda: engine.one(well) == 1, timeout=60)
        is_over.set()
        assert await run.wait(30) == "whole"
    assert engine.attempt_states(run.id) == ["succeeded"]
    assert engine.one("SELECT count(*) FROM rota.logs WHERE run_id = %s", run.id) == 1


@pytest.mark.parametrize("when", ["NEW.state = 'succeeded'", "true"])
async def test_an_end_that_cannot_be_written_takes_no_other_along(
    when: str, make_app: MakeApp, engine: Engine, conn: psycopg.Connection[Any]
) -> None:
    app = make_app(**PATIENCE)
    is_over = asyncio.Event()

    @app.job
    async def work(n: int) -> int:
        await is_over.wait()
        return n

    async with app.worker() as worker:
        first = worker.id
        bad, *good = [(await work.enqueue(n=n)).id for n in range(4)]
        conn.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF NEW.id = {bad} AND {when} THEN RAISE 'refused'; END IF; RETURN NEW; END $$;"
            " CREATE TRIGGER refuse BEFORE INSERT ON rota.ended_runs"
            " FOR EACH ROW EXECUTE FUNCTION refuse()".encode()
        )
        is_over.set()
        await eventually(lambda: {engine.state(n) for n in good} == {"succeeded"}, timeout=30)
        later = (await work.enqueue(n=9)).id
        await eventually(lambda: engine.state(later) == "succeeded", timeout=30)
        if when != "true":
            await eventually(lambda: engine.state(bad) == "failed")
            assert "could not be stored" in engine.run(bad)["end_reason"]
        assert worker.id == first
        conn.execute("DROP TRIGGER refuse ON rota.ended_runs")
