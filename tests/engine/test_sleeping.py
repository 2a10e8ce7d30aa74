"""Sleep: a worker without work has no connection and no lease, and comes back when it should.

The workers are real processes: the test's own connection keeps the server awake, and sees all.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

Start = Callable[..., WorkerProcess]
APP = "tests.apps.basic:app"
SLEEPY = {"worker.sleep_after_seconds": 0.3, "worker.sleep_at_most_seconds": 3000.0}
_OPEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'rota%%'"
)
_ASLEEP = "SELECT count(*) FROM rota.workers w WHERE rota.is_asleep(w)"


def fall_asleep(engine: Engine, workers: int = 1) -> None:
    """Until they are, and nothing of them is left at the server."""
    eventually_sync(lambda: engine.one(_ASLEEP) == workers, 60)
    eventually_sync(lambda: engine.one(_OPEN) == 0, 60)


def add(engine: Engine, **options: Any) -> int:
    named = "".join(f", {name} => %s" for name in options)
    sql = f"SELECT rota.enqueue('add', %s{named})"
    return int(engine.one(sql, json.dumps({"a": 1, "b": 2}), *options.values()))


def wait_ended(engine: Engine, run: int) -> None:
    eventually_sync(lambda: engine.state(run) == "succeeded", 60)


def test_a_sleeping_worker_has_no_connection_and_a_signal_wakes_it(
    worker_process: Start, engine: Engine
) -> None:
    worker = worker_process(APP, **SLEEPY)
    first = worker.id
    fall_asleep(engine)
    row = "SELECT state = 'gone' AND NOT is_waiting FROM rota.workers WHERE id = %s"
    assert engine.one(row, first)
    run = add(engine)
    assert engine.one(_OPEN) == 0, "nobody can know of it"
    worker.send(signal.SIGUSR1)
    wait_ended(engine, run)
    assert worker.id > first
    assert engine.one("SELECT asleep_until FROM rota.workers WHERE id = %s", first) is None
    fall_asleep(engine)
    assert engine.one("SELECT count(*) FROM rota.workers WHERE state = 'lost'") == 0
    assert worker.returncode is None


def test_it_wakes_for_a_run_that_comes_due(worker_process: Start, engine: Engine) -> None:
    engine.job("add")
    run = add(engine, delay="8 seconds")
    worker_process(APP, **SLEEPY)
    fall_asleep(engine)
    wait_ended(engine, run)


def test_it_wakes_for_a_schedule_and_for_the_end_of_a_pause(
    app: rota.App, engine: Engine, worker_process: Start
) -> None:
    engine.job("add", queue="paused")
    until = engine.one("SELECT rota.now() + interval '6 seconds'")
    engine.one("SELECT rota.pause_queue('paused', until => %s)", until)
    held = add(engine, queue="paused")
    worker = worker_process(APP, **SLEEPY)
    eventually_sync(lambda: "asleep" in worker.output, 60)
    wait_ended(engine, held)
    assert engine.one("SELECT rota.now() >= %s", until)

    at = engine.one("SELECT rota.now() + interval '6 seconds'")
    payload = {"a": 1, "b": 2}
    app.schedules.sync.put("later", "add", at=at, payload=payload)
    worker.send(signal.SIGUSR1)
    ended = "SELECT count(*) FROM rota.ended_runs WHERE schedule = 'later' AND state = 'succeeded'"
    eventually_sync(lambda: engine.one(ended) == 1, 60)


def test_it_wakes_at_the_latest_after_its_longest_sleep(
    worker_process: Start, engine: Engine
) -> None:
    worker_process(APP, **SLEEPY | {"worker.sleep_at_most_seconds": 2.0})
    fall_asleep(engine)
    wait_ended(engine, add(engine))


def test_it_does_not_sleep_while_anything_waits_or_runs(engine: Engine) -> None:
    engine.job("add")
    worker = engine.worker("add")
    quiet = "SELECT rota.quiet_seconds(%s, 100, true)"
    assert engine.one(quiet, worker) == 100
    run = add(engine)
    assert engine.one(quiet, worker) == 0
    engine.one("SELECT rota.pause_queue('default')")
    assert engine.one(quiet, worker) == 100, "nobody may take it"
    engine.one("SELECT rota.resume_queue('default')")
    engine.one("SELECT rota.set_job_enabled('add', false)")
    assert engine.one(quiet, worker) == 100
    engine.one("SELECT rota.set_job_enabled('add', true)")
    engine.claim(worker)
    assert engine.one(quiet, worker) == 0, "whoever runs it may be lost with it"
    engine.one("SELECT rota.cancel_run(%s)", run)
    engine.rows("DELETE FROM rota.open_runs")
    add(engine, delay="50 seconds")
    assert 40 < engine.one(quiet, worker) <= 50
    engine.one("SELECT rota.pause_queue('other', until => rota.now() + interval '20 seconds')")
    assert 10 < engine.one(quiet, worker) <= 20


def test_a_stop_in_its_sleep_says_that_it_is_gone(worker_process: Start, engine: Engine) -> None:
    worker = worker_process(APP, **SLEEPY)
    fall_asleep(engine)
    worker.terminate()
    assert worker.wait() == 0
    assert engine.one(_ASLEEP) == 0
    assert engine.one("SELECT count(*) FROM rota.workers WHERE state <> 'gone'") == 0


def test_children_of_a_supervisor_sleep_and_are_woken_by_it(
    worker_process: Start, engine: Engine
) -> None:
    worker = worker_process(APP, wait=False, **SLEEPY, **{"worker.processes": 2})
    fall_asleep(engine, 2)
    run = add(engine)
    worker.send(signal.SIGUSR1)
    wait_ended(engine, run)
    fall_asleep(engine, 2)
    assert "lease is lost" not in worker.output
    worker.terminate()
    assert worker.wait() == 0


async def test_what_its_own_program_enqueues_wakes_it(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**SLEEPY)

    @app.job
    async def work() -> int:
        return 7

    async with app.worker() as worker:
        await eventually(lambda: engine.one(_ASLEEP) == 1, timeout=60)
        await eventually(lambda: engine.one(_OPEN) == 0, timeout=60)
        assert worker.id is None
        run = await work.enqueue()
        assert await run.wait(timeout=60) == 7
        assert worker.id is not None
    assert engine.one(_ASLEEP) == 0


async def test_work_that_comes_while_it_lies_down_is_done(
    make_app: MakeApp, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has asked whether all is quiet; then something comes, and it is called."""
    app = make_app(**SLEEPY)
    ran: list[int] = []

    @app.job
    async def work() -> None:
        ran.append(1)

    worker = app.worker()
    ask = worker._sleep.quiet_seconds

    async def asked() -> float:
        seconds = await ask()
        if not ran:
            engine.one("SELECT rota.enqueue('work')")
        return seconds

    monkeypatch.setattr(worker._sleep, "quiet_seconds", asked)
    async with worker:
        await eventually(lambda: bool(ran), timeout=60)
        await eventually(lambda: engine.one(_ASLEEP) == 1, timeout=60)


def test_an_operator_sees_it_and_can_tell_it_nothing(engine: Engine, app: rota.App) -> None:
    worker = engine.worker("add")
    engine.one("SELECT rota.fall_asleep(%s, 100, true)", worker)
    (found,) = app.workers.sync.list()
    assert (found.id, found.status, found.state) == (worker, "asleep", "gone")
    assert found.asleep_until is not None
    assert [asleep.id for asleep in app.workers.sync.list(status="asleep")] == [worker]
    with pytest.raises(rota.RotaError, match="asleep, and returns under another number"):
        app.workers.sync.drain(worker)
    engine.rows("UPDATE rota.workers SET asleep_until = now() - interval '2 minutes'")
    assert app.workers.sync.list() == [], "it was killed in its sleep"


def test_a_run_waits_for_whoever_sleeps_and_is_not_unknown(engine: Engine) -> None:
    engine.job("add")
    sleeping_one, _awake = engine.worker("add"), engine.worker("other")
    engine.one("SELECT rota.fall_asleep(%s, 100, true)", sleeping_one)
    run = add(engine)
    engine.one("SELECT rota.count_depths(0)")
    assert engine.one("SELECT rota.park_unknown_runs(10)") == 0
    engine.rows("UPDATE rota.workers SET asleep_until = NULL WHERE id = %s", sleeping_one)
    assert engine.one("SELECT rota.park_unknown_runs(10)") == 1
    assert engine.state(run) == "queued"


def test_a_lost_worker_cannot_fall_asleep(engine: Engine) -> None:
    """A worker that was declared lost before it could sign off is not asleep."""
    worker = engine.worker()
    engine.lose(worker)
    assert engine.one("SELECT rota.fall_asleep(%s, 100, true)", worker) == 0
    assert engine.one(_ASLEEP) == 0
