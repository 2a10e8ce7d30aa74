"""A run is made ready before the commit of its claim, and starts after it.

The commit is made to wait, or to fail, by a constraint trigger that fires when it is under way.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

import rota
from rota.engine.claiming.slots import ClaimCommit
from rota.testing import eventually
from tests.sql_engine import Engine

HOLD = "PERFORM pg_advisory_xact_lock(1)"
FAIL = (
    "IF NOT EXISTS (SELECT FROM public.once WHERE is_over) THEN"
    " RAISE EXCEPTION 'no commit' USING ERRCODE = '40001'; END IF"
)


def at_commit_of_a_claim(engine: Engine, what: str) -> None:
    engine.conn.execute(
        f"CREATE FUNCTION public.at_commit() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {what}; RETURN NULL; END $$;"
        " CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON rota.open_runs"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        " WHEN (NEW.state = 'running' AND OLD.state <> 'running')"
        " EXECUTE FUNCTION public.at_commit()".encode()
    )


def waiting_backends(engine: Engine) -> list[int]:
    """Of this test: the server has other databases, whose tests lock too."""
    rows = engine.rows(
        "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()"
    )
    return [row["pid"] for row in rows]


@pytest.fixture
def started(app: rota.App) -> list[str]:
    """What ran, in a job for each way to run."""
    started = []

    @app.job
    async def in_loop() -> None:
        started.append("in_loop")

    @app.job
    def in_thread() -> None:
        started.append("in_thread")

    return started


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> list[ClaimCommit]:
    """One entry for each run that is ready and waits for its claim."""
    ready = []

    def wait(self: ClaimCommit) -> Generator[Any, None, None]:
        ready.append(self)
        return original(self)

    original = ClaimCommit.__await__
    monkeypatch.setattr(ClaimCommit, "__await__", wait)
    return ready


@pytest.mark.parametrize("job", ["in_loop", "in_thread"])
async def test_nothing_starts_before_its_claim_is_committed(
    app: rota.App, engine: Engine, started: list[str], ready: list[ClaimCommit], job: str
) -> None:
    await app.database.open()
    at_commit_of_a_claim(engine, HOLD)
    engine.conn.execute("SELECT pg_advisory_lock(1)")
    run = engine.enqueue(job)
    async with app.worker():
        await eventually(lambda: bool(ready))
        assert started == []
        engine.conn.execute("SELECT pg_advisory_unlock(1)")
        await eventually(lambda: engine.state(run) == "succeeded")
    assert started == [job]
    (attempt,) = engine.attempts(run)
    assert attempt["attempt"] == 1


async def test_a_claim_whose_connection_broke_at_its_commit_starts_nothing(
    app: rota.App, engine: Engine, started: list[str], ready: list[ClaimCommit]
) -> None:
    await app.database.open()
    at_commit_of_a_claim(engine, HOLD)
    engine.conn.execute("SELECT pg_advisory_lock(1)")
    run = engine.enqueue("in_loop")
    async with app.worker():
        # The rows come first, the commit is behind them.
        await eventually(lambda: bool(ready) and bool(waiting_backends(engine)))
        (pid,) = waiting_backends(engine)
        engine.conn.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        await eventually(lambda: ready[0].is_over)
        assert started == []
        engine.conn.execute("SELECT pg_advisory_unlock(1)")
        await eventually(lambda: engine.state(run) == "succeeded")
    assert started == ["in_loop"]
    assert engine.run(run)["attempts_used"] == 1


async def test_a_claim_that_was_not_committed_starts_nothing(
    app: rota.App, engine: Engine, started: list[str], ready: list[ClaimCommit]
) -> None:
    await app.database.open()
    engine.conn.execute("CREATE TABLE once (is_over boolean)")
    at_commit_of_a_claim(engine, FAIL)
    run = engine.enqueue("in_loop")
    async with app.worker():
        await eventually(lambda: bool(ready) and ready[0].is_over)
        assert started == []
        engine.conn.execute("INSERT INTO once VALUES (true)")
        await eventually(lambda: engine.state(run) == "succeeded")
    assert started == ["in_loop"]
    assert engine.run(run)["attempts_used"] == 1
