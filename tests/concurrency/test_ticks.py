"""Many tickers at once: nothing twice, nothing lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import ExitStack

import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from tests.conftest import MakeApp
from tests.scheduling import START, Interrupted, Schedules
from tests.sql_engine import Engine

TICKERS = 10
DUE = 1000

MANY = """
INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)
SELECT 's' || i, 'work', 60, %s FROM generate_series(1, %s) i
"""


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    await app.database.open()
    found = Schedules(engine, app.database)
    engine.rows(MANY, START, DUE)
    await found.tick()
    engine.advance(61)
    return found


@pytest.fixture
async def tickers(make_app: MakeApp, schedules: Schedules) -> list[Scheduler]:
    """Each on connections of its own."""
    found = []
    for _ in range(TICKERS):
        app = make_app()
        await app.database.open()
        found.append(Scheduler(app.database, tick_seconds=1))
    return found


def check(engine: Engine, count: int) -> None:
    """As many runs as rows of the ledger, each with its own."""
    assert engine.one("SELECT count(*) FROM rota.open_runs") == count
    assert engine.one("SELECT count(*) FROM rota.ledger") == count
    assert count == engine.one(
        "SELECT count(DISTINCT (o.schedule_id, o.scheduled_for)) FROM rota.open_runs o"
        " JOIN rota.ledger l ON l.run_id = o.id AND l.schedule_id = o.schedule_id"
        " AND l.nominal_at = o.scheduled_for"
    )


async def test_ten_tickers_and_a_thousand_due_schedules(
    engine: Engine, tickers: list[Scheduler]
) -> None:
    await asyncio.gather(*(ticker.run_once() for ticker in tickers))
    check(engine, DUE)


@pytest.mark.slow
def test_ten_processes_and_a_thousand_due_schedules(
    engine: Engine, schedules: Schedules, database_url: str
) -> None:
    command = [sys.executable, "-m", "tests.apps.tick_once", database_url]
    with ExitStack() as stack:
        pipe = subprocess.PIPE
        started = [
            stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
            for _ in range(TICKERS)
        ]
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        assert [one.wait(60) for one in started] == [0] * TICKERS
    check(engine, DUE)


def test_what_lies_between_held_stretches_is_found(engine: Engine, schedules: Schedules) -> None:
    def hold(most: int) -> tuple[int | None, set[int]]:
        (row,) = engine.rows("SELECT hold, ids FROM rota.hold_due(%s, 60)", most)
        return row["hold"], set(row["ids"])

    first, ids = hold(300)
    _, others = hold(300)
    assert len(ids | others) == 600
    engine.one("SELECT rota.release_hold(%s)", first)
    # Those of the first stretch are free again; the second is stepped over.
    _, again = hold(500)
    assert len(again) == 500
    assert ids < again
    assert not again & others
    assert len(hold(500)[1]) == 200
    assert hold(500) == (None, set())
    # A stretch whose ticker went away is free when its time is over.
    engine.rows("UPDATE rota.schedule_holds SET until = now()")
    assert len(hold(2000)[1]) == DUE


async def test_tickers_that_do_not_heed_the_hold_double_nothing(
    engine: Engine, tickers: list[Scheduler], schedules: Schedules
) -> None:
    """All of them decide the same schedules; the compare-and-set lets one of them write."""
    engine.rows("CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN NEW.until := '-infinity'; RETURN NEW; END $$")  # fmt: skip
    engine.rows("CREATE TRIGGER forget BEFORE INSERT OR UPDATE ON rota.schedule_holds"
                " FOR EACH ROW EXECUTE FUNCTION forget()")  # fmt: skip
    decided = await asyncio.gather(*(ticker.tick() for ticker in tickers))
    assert sum(decided) > 500
    await schedules.tick()
    check(engine, DUE)


async def test_ends_and_ticks_at_once_hold_nobody_for_ever(
    app: rota.App, engine: Engine, schedules: Schedules
) -> None:
    """Runs end while the next ones are decided: every held run is freed in the end."""
    engine.rows("UPDATE rota.schedules SET overlap = 'queue_one', max_concurrent_runs = 1"
                " WHERE id % 20 = 0")  # fmt: skip
    engine.rows("DELETE FROM rota.schedules WHERE overlap <> 'queue_one' AND NOT is_system")
    await schedules.tick()
    worker = engine.worker()
    other = Interrupted(app.database, tick_seconds=1)
    for _ in range(5):
        engine.advance(60)
        claims = engine.claim(worker, 1000)
        await asyncio.gather(
            other.tick(), asyncio.to_thread(engine.succeed, worker, *reversed(claims))
        )
    for _ in range(3):
        # An end that met a tick at its schedule has called: somebody settles it.
        await other.tick()
        engine.succeed(worker, *engine.claim(worker, 1000))
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE held_by IS NOT NULL") == 0
    assert engine.one("SELECT count(*) FROM rota.schedule_ends") == 0
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0
