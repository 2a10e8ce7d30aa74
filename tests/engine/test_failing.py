"""Workers that are live and do not get their work done do not stay so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.engine import loop as loops
from rota.engine.listener import Listener
from rota.engine.logs import log_indexes
from rota.engine.logs.log_indexes import LogIndexes
from rota.engine.logs.log_writer import LogWriter
from rota.engine.loop import Loop
from rota.engine.loops.admission import Admission
from rota.engine.loops.bulk_actions import BulkActionLoop
from rota.engine.loops.drain import DrainLoop
from rota.engine.loops.sql_jobs import SqlJobs
from rota.engine.loops.tenants import TenantLoop
from rota.engine.loops.upkeep import Upkeep
from rota.engine.worker import Worker
from rota.postgres.pipeline import prepared
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

Start = Callable[..., WorkerProcess]
# Enough for a turn on a busy machine: whoever is only slow is not in trouble.
PATIENCE = {"worker.patience_seconds": 5.0}


_GATE = 4711


def take_away(conn: psycopg.Connection[Any], function: str) -> None:
    """A failure that does not pass."""
    conn.execute(f"ALTER FUNCTION rota.{function} RENAME TO gone".encode())


def stand_still(conn: psycopg.Connection[Any], function: str) -> None:
    """Every call of it waits for whoever holds the gate."""
    row = conn.execute(
        "SELECT pg_get_functiondef(p.oid), l.lanname FROM pg_proc p"
        " JOIN pg_language l ON l.oid = p.prolang"
        " WHERE p.proname = %s AND p.pronamespace = 'rota'::regnamespace",
        [function],
    ).fetchone()
    assert row is not None, function
    text, language = row
    # No lock that a lock_timeout would call off.
    conn.execute(
        "CREATE OR REPLACE FUNCTION public.wait_at_gate() RETURNS void LANGUAGE plpgsql AS $$ BEGIN"
        f" WHILE NOT pg_try_advisory_xact_lock_shared({_GATE}) LOOP PERFORM pg_sleep(0.05);"
        " END LOOP; END $$"
    )
    wait = "public.wait_at_gate();"
    if language == "plpgsql":
        changed = re.sub(r"^BEGIN\b", f"BEGIN PERFORM {wait}", text, count=1, flags=re.M)
    else:
        changed = text.replace("AS $function$", f"AS $function$ SELECT {wait}", 1)
    assert changed != text, function
    conn.execute(changed.encode())


@pytest.mark.parametrize(
    ("how", "functions"),
    [("fails", "claim_runs"), ("stands", "claim_runs"), ("stands", "finish_runs finish_span")],
)
def test_a_worker_that_cannot_do_its_own_work_ends_the_process(
    how: str,
    functions: str,
    worker_process: Start,
    engine: Engine,
    conn: psycopg.Connection[Any],
    connect: Callable[..., psycopg.Connection[Any]],
) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(%s)", [_GATE])
    worker = worker_process("tests.apps.impatient:app", **PATIENCE)
    first = worker.id
    run = engine.enqueue("add", {"a": 1, "b": 2})
    eventually_sync(lambda: engine.state(run) == "succeeded")
    for function in functions.split():
        (take_away if how == "fails" else stand_still)(conn, function)
    engine.enqueue("add", {"a": 1, "b": 2})
    # The end that it could not write is kept for others: the new identity needs one of its own.
    eventually_sync(lambda: worker.id > first, timeout=60)
    engine.enqueue("add", {"a": 1, "b": 2})
    assert worker.wait(120) == 70
    assert "the worker is failing: registering again" in worker.output
    assert worker.output.count("registering again did not help: stopping") == 1
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
    assert "registering again did not help: stopping" in caplog.text
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


# By what each loop beside the slots is kept waiting. Where a statement gives up a lock by itself,
# or reads what the rest of a worker needs, the turn waits here instead.
STANDING_FUNCTIONS = {
    "progress": "report_progress",
    "rollups": "add_counts",
    "promoter": "promote_runs",
    "rescuer": "mark_lost_workers",
    "upkeep": "expire_runs",
    "log indexes": "next_log_index",
    "definitions": "must_sync",
    "isolation": "claim_suspect",
    "kept ends": "settle_kept_ends",
    "scheduler": "hold_due",
}
STANDING_TABLES = {"logs": "logs"}
STANDING_HERE: dict[str, type[Loop]] = {
    "drain": DrainLoop,
    "sql jobs": SqlJobs,
    "bulk actions": BulkActionLoop,
    "admission": Admission,
    "tenants": TenantLoop,
}


async def test_each_loop_that_stands_still_is_seen_and_begins_anew(
    make_app: MakeApp,
    engine: Engine,
    conn: psycopg.Connection[Any],
    connect: Callable[..., psycopg.Connection[Any]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them at once, while a run goes on. What they have to do is done when whoever kept
    them waiting is gone, and once."""
    app = make_app(**PATIENCE)
    is_over, is_gated, gate = (asyncio.Event() for _ in range(3))
    monkeypatch.setattr(log_indexes, "_PERIOD", 0.2)  # the others are due all the time
    monkeypatch.setattr(loops, "_LONGEST_PAUSE", 1.0)
    for loop in (Upkeep, LogIndexes):
        monkeypatch.setattr(loop, "long_seconds", 0.0)
    for loop in STANDING_HERE.values():
        monkeypatch.setattr(loop, "run_once", _after(gate, loop.run_once))
    monkeypatch.setattr(Listener, "_listen", _after(gate, Listener._listen))

    @app.job
    async def long(ctx: rota.Context) -> str:
        await is_gated.wait()
        ctx.log.info("a line")
        ctx.progress(0.5)
        await is_over.wait()
        return "whole"

    @app.job
    async def later() -> str:
        return "late"

    @app.job
    async def quick() -> str:
        return "done"

    long_run, late_run = await long.enqueue(), await later.options(delay=1).enqueue()
    for function in STANDING_FUNCTIONS.values():
        stand_still(conn, function)
    holder = connect(autocommit=False)
    worker = app.worker()
    async with worker:
        await eventually(lambda: engine.state(long_run.id) == "running")
        for table in STANDING_TABLES.values():
            holder.execute(f"LOCK TABLE rota.{table} IN ACCESS EXCLUSIVE MODE".encode())
        holder.execute("SELECT pg_advisory_lock(%s)", [_GATE])
        is_gated.set()
        own = {"feeder", "end writer"}
        expected = {*STANDING_FUNCTIONS, *STANDING_TABLES, *STANDING_HERE, "listener"}
        assert worker._parts.health.loops - own == expected
        await eventually(lambda: _begun_anew(caplog) >= expected, timeout=90)
        for _ in range(3):
            assert await (await quick.enqueue()).wait(60) == "done"
        query = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND trouble IS NOT NULL"
        assert engine.one(query) == 1
        gate.set()
        holder.execute("SELECT pg_advisory_unlock_all()")
        holder.rollback()
        well = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND trouble IS NULL"
        await eventually(lambda: engine.one(well) == 1, timeout=90)
        assert await late_run.wait(60) == "late"
        is_over.set()
        assert await long_run.wait(60) == "whole"
    assert engine.attempt_states(long_run.id) == ["succeeded"]
    assert engine.one("SELECT count(*) FROM rota.logs WHERE run_id = %s", long_run.id) == 1


def _after(gate: asyncio.Event, turn: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def wait(self: Any, *arguments: Any) -> Any:
        await gate.wait()
        return await turn(self, *arguments)

    return wait


# What each loop asks, which fails from now on; where a loop keeps the text, the function is gone.
FAILING_STATEMENTS = {
    "progress": "runs/progress",
    "rollups": "metrics/add_counters",
    "rescuer": "workers/mark_lost",
    "upkeep": "sweep(max_rows)",
    "log indexes": "upkeep/next_log_index",
    "definitions": "jobs/refresh",
    "isolation": "runs/claim_suspect",
    "drain": "workers/orders",
    "sql jobs": "jobs/sql_jobs",
    "bulk actions": "bulk/take",
    "kept ends": "runs/settle_kept_ends",
}
FAILING_FUNCTIONS = {
    "promoter": "promote_runs",
    "scheduler": "hold_due",
    "admission": "admit_runs",
    "tenants": "tend_tenants",
}


async def test_each_loop_that_only_fails_is_seen_and_recovers(
    make_app: MakeApp,
    engine: Engine,
    conn: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them at once; the listener is told that there is nobody to hear."""
    app = make_app(**PATIENCE)
    is_gated, is_over = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(log_indexes, "_PERIOD", 0.2)
    monkeypatch.setattr(loops, "_LONGEST_PAUSE", 1.0)
    monkeypatch.setattr(Loop, "pause", lambda _self, _period, _resting: 1.0)

    @app.job
    async def long(ctx: rota.Context) -> str:
        await is_gated.wait()
        ctx.log.info("a line")
        ctx.progress(0.5)
        await is_over.wait()
        return "whole"

    @app.job
    async def quick() -> str:
        return "done"

    texts, real, write = app.database.statements._rendered, Listener._listen, LogWriter.write
    async with app, app.worker() as worker:
        run = await long.enqueue()
        await eventually(lambda: engine.state(run.id) == "running")
        kept = {name: app.database.statements.get(name) for name in FAILING_STATEMENTS.values()}
        texts |= dict.fromkeys(kept, "SELECT 1 / 0")
        for loop, function in FAILING_FUNCTIONS.items():
            conn.execute(f"ALTER FUNCTION rota.{function} RENAME TO gone_{loop}".encode())
        monkeypatch.setattr(Listener, "_listen", _broken)
        monkeypatch.setattr(LogWriter, "write", _broken)
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'rota listener' AND datname = current_database()"
        )
        is_gated.set()
        expected = {*FAILING_STATEMENTS, *FAILING_FUNCTIONS, "listener", "logs"}
        assert worker._parts.health.loops - {"feeder", "end writer"} == expected
        await eventually(lambda: expected <= _failing(worker), timeout=90)
        assert (await app.workers.list(status="failing"))[0].errors > 0
        for _ in range(3):
            assert await (await quick.enqueue()).wait(60) == "done"
        texts |= kept
        for loop, function in FAILING_FUNCTIONS.items():
            conn.execute(f"ALTER FUNCTION rota.gone_{loop} RENAME TO {function}".encode())
        monkeypatch.setattr(Listener, "_listen", real)
        monkeypatch.setattr(LogWriter, "write", write)
        await eventually(lambda: not _failing(worker), timeout=90)
        is_over.set()
        assert await run.wait(60) == "whole"
    assert engine.attempt_states(run.id) == ["succeeded"]
    assert engine.one("SELECT count(*) FROM rota.logs WHERE run_id = %s", run.id) == 1


def _failing(worker: Worker) -> set[str]:
    return {fault.loop for fault in worker._parts.health.look()}


async def _broken(*_: Any) -> None:
    raise RuntimeError("nobody hears")


def _begun_anew(caplog: pytest.LogCaptureFixture) -> set[str]:
    found = [
        re.search(r"restarting it.* loop='?([a-z ]+?)'? \w+=", message)
        for message in caplog.messages
    ]
    return {match[1] for match in found if match}


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
