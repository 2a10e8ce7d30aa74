"""Limits with real workers, some of which are killed or cut off: never one too many at work, and no
slot is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest

from rota.testing import eventually_sync
from tests.conftest import PATIENT, SHORT
from tests.depth import IS_DEEP
from tests.proxy import Proxy
from tests.sql_engine import Engine
from tests.workers import Loop, WorkerProcess

pytestmark = pytest.mark.chaos

APP = "tests.apps.limited:app"
StartWorker = Callable[..., WorkerProcess]
# Workers, runs, and how many of the workers are killed.
FLEET = (16, 600, 24) if IS_DEEP else (3, 60, 4)


def until_all_ended(engine: Engine, seconds: float = 120) -> None:
    eventually_sync(lambda: engine.one("SELECT count(*) FROM rota.open_runs") == 0, timeout=seconds)


def until_begun(engine: Engine, number: int) -> None:
    eventually_sync(lambda: engine.one("SELECT count(*) FROM at_work") >= number, timeout=60)


def test_workers_that_are_killed_neither_exceed_a_limit_nor_keep_its_slots(
    engine: Engine, worker_process: StartWorker
) -> None:
    fleet, runs, kills = FLEET
    engine.conn.execute("CREATE TABLE at_work (n integer)")
    # A worker that the busy machine keeps from renewing would be at work beside its successor.
    workers = [worker_process(APP, **PATIENT) for _ in range(fleet)]
    for _ in range(runs):
        engine.enqueue("careful", {"seconds": 0.05})
    chance = random.Random(1)
    for kill in range(1, kills + 1):
        until_begun(engine, kill * runs // (kills + 2))
        workers.pop(chance.randrange(fleet)).kill()
        workers.append(worker_process(APP, **PATIENT))
    until_all_ended(engine, 120 + runs)
    assert engine.one("SELECT max(n) FROM at_work") <= 3
    assert engine.one("SELECT count(*) FROM rota.ended_runs WHERE state = 'succeeded'") == runs
    eventually_sync(lambda: engine.one("SELECT in_use FROM rota.limit_slots") == 0)
    assert engine.rows("SELECT * FROM rota.limit_differences()") == []
    assert engine.rows("SELECT * FROM rota.audit WHERE action = 'limit.mended'") == []


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_worker_whose_connections_are_half_open_gives_its_slots_to_others(
    engine: Engine,
    database_url: str,
    proxy: Proxy,
    worker_process: StartWorker,
    tmp_path: Path,
    loop: Loop,
) -> None:
    marks = tmp_path / "marks"
    marks.touch()
    worker_process(APP, loop=loop)
    for _ in range(30):
        engine.enqueue("marked", {"file": str(marks), "seconds": 0.3})
    eventually_sync(lambda: marks.read_text().count("+") >= 3)
    assert proxy.half_open() > 0
    proxy.freeze()  # and new ones lead nowhere, so that it loses its lease
    other = WorkerProcess(database_url, APP, SHORT, loop=loop)
    try:
        until_all_ended(engine)
    finally:
        other.close()
    at_work = accumulate({"+": 1, "-": -1}[mark] for mark in marks.read_text().split())
    assert max(at_work) <= 3
    assert engine.one("SELECT count(*) FROM rota.ended_runs WHERE state = 'succeeded'") == 30
    assert engine.one("SELECT count(*) FROM rota.attempts WHERE state = 'lost'") > 0
    assert engine.rows("SELECT * FROM rota.limit_differences()") == []


def test_every_line_is_in_order(engine: Engine, worker_process: StartWorker) -> None:
    engine.conn.execute("CREATE TABLE lines (place bigserial, line text, n integer)")
    for _ in range(2):
        worker_process(APP)
    payloads = [{"line": str(n % 5), "n": n} for n in range(200)]
    engine.one("SELECT rota.enqueue_batch('in_line', %s)", json.dumps(payloads))
    until_all_ended(engine)
    rows = engine.rows("SELECT line, n FROM lines ORDER BY place")
    for line in map(str, range(5)):
        numbers = [row["n"] for row in rows if row["line"] == line]
        assert numbers == sorted(numbers)
        assert len(numbers) == 40
