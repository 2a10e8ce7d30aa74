"""Runs that were lost with their worker: they alone pay for it. Real processes, real signals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.testing import eventually_sync
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

pytestmark = pytest.mark.chaos

APP = "tests.apps.chaos:app"
StartWorker = Callable[..., WorkerProcess]
SLOTS = {"worker.concurrency": 24}


def effects(engine: Engine, attempt: int) -> int:
    return int(engine.one("SELECT count(*) FROM effects WHERE attempt = %s", attempt))


def until_ended(engine: Engine, *runs: int) -> None:
    def all_ended() -> bool:
        left = engine.one("SELECT count(*) FROM rota.open_runs WHERE id = ANY (%s)", list(runs))
        return left == 0

    eventually_sync(all_ended, timeout=60)


def enqueue(engine: Engine, job: str, count: int, queue: str) -> list[int]:
    return [engine.enqueue(job, queue=queue) for _ in range(count)]


def test_quick_runs_are_picked_up_while_the_lost_ones_run_again(
    engine: Engine, worker_process: StartWorker
) -> None:
    victim = worker_process(APP, **SLOTS, **{"worker.queues": ["left", "default"]})
    left = enqueue(engine, "long", 10, "left")
    eventually_sync(lambda: effects(engine, 1) == 10)
    survivor = worker_process(APP, **SLOTS)
    right = enqueue(engine, "long", 10, "right")
    eventually_sync(lambda: effects(engine, 1) == 20)

    victim.kill()
    # One after the other, from the crash until all of them run again, and on: each is picked up
    # and ends although no long one has.
    while effects(engine, 2) < 10:
        until_ended(engine, engine.enqueue("quick", {"n": 1}))
    for _ in range(20):
        until_ended(engine, engine.enqueue("quick", {"n": 1}))
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE state = 'running'") == 20

    engine.conn.execute("INSERT INTO gate VALUES (true)")
    until_ended(engine, *left, *right)
    assert {tuple(engine.attempt_states(run)) for run in left} == {("lost", "succeeded")}
    assert {tuple(engine.attempt_states(run)) for run in right} == {("succeeded",)}
    assert {engine.run(run)["worker"] for run in left} == {survivor.id}


def test_suspects_run_in_processes_of_their_own_beside_the_slots(
    engine: Engine, worker_process: StartWorker
) -> None:
    victim = worker_process(APP, **SLOTS)
    runs = enqueue(engine, "long_twice", 3, "default")
    eventually_sync(lambda: effects(engine, 1) == 3)
    victim.kill()
    survivor = worker_process(APP, **{"worker.concurrency": 1})
    eventually_sync(lambda: effects(engine, 2) == 1, timeout=60)

    # Its only slot is free: the suspect has none of them, and the others wait their turn.
    for _ in range(10):
        until_ended(engine, engine.enqueue("quick", {"n": 1}))
    assert [engine.run(run)["state"] for run in runs] == ["running", "queued", "queued"]
    assert [engine.run(run)["held_by"] for run in runs] == [None, "suspect", "suspect"]
    assert engine.one("SELECT isolating_run FROM rota.workers WHERE state = 'live'") == runs[0]

    engine.conn.execute("INSERT INTO gate VALUES (true)")
    until_ended(engine, *runs)
    ended = [engine.run(run) for run in runs]
    assert {run["worker"] for run in ended} == {survivor.id}
    assert survivor.pid not in {run["result"] for run in ended}
    assert len({run["result"] for run in ended}) == 3


@pytest.mark.parametrize("job", ["sync_effect", "async_effect"])
@pytest.mark.parametrize("is_deadly", [False, True])
def test_effect_and_completion_commit_together_in_the_child(
    engine: Engine, worker_process: StartWorker, job: str, is_deadly: bool
) -> None:
    victim = worker_process(APP)
    run = engine.enqueue(job, {"is_deadly": is_deadly})
    assert victim.wait() == -9
    worker = worker_process(APP)
    until_ended(engine, run)
    ended = engine.run(run)
    if is_deadly:
        assert (ended["state"], ended["end_reason"]) == ("failed", "attempts used up")
        assert "died: killed by SIGKILL" in ended["last_error"]
        assert engine.attempt_states(run) == ["lost", "lost"]
        assert effects(engine, 2) == 0
    else:
        assert engine.attempt_states(run) == ["lost", "succeeded"]
        assert ended["result"] != worker.pid
        assert effects(engine, 2) == 1
    until_ended(engine, engine.enqueue("quick", {"n": 1}))
    assert worker.returncode is None


@pytest.mark.parametrize(
    ("job", "crashes"), [("poison", 1), ("stubborn_poison", 2), ("poison_thread", 2)]
)
def test_a_poison_run_beside_innocents_ends_alone(
    engine: Engine, worker_process: StartWorker, job: str, crashes: int
) -> None:
    settings = {"worker.concurrency": 4, "worker.claim_size": 40}
    workers = [worker_process(APP, **settings)]
    engine.conn.execute("SELECT rota.pause_queue('default')")
    innocents = [engine.enqueue("quick", {"n": n}) for n in range(150)]
    poison = engine.enqueue(job)
    innocents += [engine.enqueue("quick", {"n": n}) for n in range(150, 300)]
    engine.conn.execute("SELECT rota.resume_queue('default')")

    def all_ended() -> bool:
        if workers[-1].returncode is not None:
            workers.append(worker_process(APP, wait=False, **settings))
        return bool(engine.one("SELECT count(*) = 0 FROM rota.open_runs"))

    eventually_sync(all_ended, timeout=120)
    states = engine.rows("SELECT DISTINCT state FROM rota.runs WHERE id = ANY (%s)", innocents)
    assert states == [{"state": "succeeded"}]
    ended = engine.run(poison)
    assert (ended["state"], ended["end_reason"]) == ("failed", "attempts used up")
    assert engine.attempt_states(poison) == ["lost"] * (crashes + 1)
    assert len(workers) - 1 == crashes, "the last attempt takes no worker with it"
    lost = engine.one("SELECT count(*) FROM rota.past_attempts WHERE run_id <> %s", poison)
    assert lost < crashes * 2 * 40, "only batches that had started may have lost an attempt"


def test_a_poison_run_isolated_in_its_worker_s_process_ends_alone(
    engine: Engine, worker_process: StartWorker
) -> None:
    """No process of its own can run it: it takes workers with it, and pays alone for them."""
    settings = {"worker.isolation": "inline", "worker.concurrency": 4}
    workers = [worker_process(APP, **settings)]
    innocents = [engine.enqueue("hold", max_attempts=2) for _ in range(3)]
    eventually_sync(lambda: effects(engine, 1) == 3)
    poison = engine.enqueue("poison")
    waiting = list(innocents)

    def all_ended() -> bool:
        if workers[-1].returncode is not None:
            workers.append(worker_process(APP, wait=False, **settings))
            waiting.append(engine.enqueue("quick", {"n": 1}, max_attempts=2))
        return bool(engine.one("SELECT count(*) = 0 FROM rota.open_runs"))

    eventually_sync(all_ended, timeout=120)
    assert {engine.state(run) for run in waiting} == {"succeeded"}
    ended = engine.run(poison)
    assert (ended["state"], ended["end_reason"]) == ("failed", "attempts used up")
    spent = engine.rows(
        "SELECT run_id, count(*) FROM rota.past_attempts WHERE is_spent AND run_id = ANY (%s)"
        " GROUP BY run_id",
        waiting,
    )
    assert {row["run_id"] for row in spent} <= set(innocents), "only the first crash cost others"
    assert {row["count"] for row in spent} == {1}
