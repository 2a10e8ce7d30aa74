"""Workers that die, freeze and come back. Real processes, real signals."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from rota.testing import eventually_sync
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

pytestmark = pytest.mark.chaos

APP = "tests.apps.chaos:app"
StartWorker = Callable[..., WorkerProcess]


def effects(engine: Engine) -> list[int]:
    return [row["attempt"] for row in engine.rows("SELECT attempt FROM effects ORDER BY attempt")]


def until_ended(engine: Engine, run: int) -> None:
    ended = ("succeeded", "failed", "cancelled")
    eventually_sync(lambda: engine.state(run) in ended, timeout=60)


ACCIDENTS = [
    ("before the body", "at_least_once", [2]),
    ("before the flush", "at_least_once", [1, 2]),
    ("before the commit", "exactly_once", [2]),
    ("before the commit", "exactly_once_by_orm", [2]),
]


@pytest.mark.parametrize(("accident", "job", "seen"), ACCIDENTS)
def test_a_worker_that_dies(
    engine: Engine, worker_process: StartWorker, monkeypatch: pytest.MonkeyPatch,
    accident: str, job: str, seen: list[int],
) -> None:  # fmt: skip
    monkeypatch.setenv("ROTA_CHAOS", accident)
    victim = worker_process(APP)
    run = engine.enqueue(job)
    assert victim.wait() == -signal.SIGKILL
    monkeypatch.delenv("ROTA_CHAOS")
    worker_process(APP)
    until_ended(engine, run)
    assert engine.attempt_states(run) == ["lost", "succeeded"]
    assert engine.run(run)["result"] == 2
    assert effects(engine) == seen


def test_a_worker_killed_in_the_body(engine: Engine, worker_process: StartWorker) -> None:
    victim = worker_process(APP)
    run = engine.enqueue("hold")
    eventually_sync(lambda: effects(engine) == [1])
    victim.kill()
    worker_process(APP)
    until_ended(engine, run)
    assert engine.attempt_states(run) == ["lost", "succeeded"]
    assert effects(engine) == [1, 2]


def test_a_frozen_worker_learns_that_it_was_lost(
    engine: Engine, worker_process: StartWorker
) -> None:
    frozen = worker_process(APP)
    old = frozen.id
    run = engine.enqueue("hold")
    eventually_sync(lambda: effects(engine) == [1])
    frozen.freeze()
    other = worker_process(APP)
    until_ended(engine, run)
    before = engine.run(run), engine.attempts(run)
    assert engine.attempt_states(run) == ["lost", "succeeded"]
    engine.conn.execute("INSERT INTO gate VALUES (true)")
    frozen.thaw()
    eventually_sync(lambda: frozen.id > old)
    other.kill()
    again = engine.enqueue("quick", {"n": 5})
    until_ended(engine, again)
    assert engine.run(again)["worker"] == frozen.id
    assert (engine.run(run), engine.attempts(run)) == before


def test_signals_stop_a_worker_in_order(engine: Engine, worker_process: StartWorker) -> None:
    worker = worker_process(APP, **{"worker.shutdown_seconds": 3600})
    run = engine.enqueue("hold")
    eventually_sync(lambda: effects(engine) == [1])
    worker.terminate()
    eventually_sync(lambda: engine.one("SELECT state FROM rota.workers") == "stopping")
    assert worker.returncode is None
    worker.terminate()
    assert worker.wait() == 0
    shown = engine.run(run)
    assert (shown["state"], shown["attempts_used"]) == ("queued", 0)
    assert engine.one("SELECT state FROM rota.workers") == "gone"
