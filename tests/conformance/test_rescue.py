"""Lost workers: who is declared lost, and what becomes of their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.engine import Engine


def test_a_live_worker_is_left_alone(engine: Engine) -> None:
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim_one(worker)
    assert engine.mark_lost() == []
    assert engine.rescue() == {}
    assert engine.rescue(everywhere=True) == {}
    assert engine.state(run) == "running"


def test_a_started_run_loses_an_attempt_and_is_suspect(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker)
    engine.lose(worker)
    assert engine.rescue() == {run: "requeued"}
    shown = engine.run(run)
    assert (shown["state"], shown["held_by"], shown["attempts_used"]) == ("queued", "suspect", 1)
    assert engine.attempt_states(run) == ["lost"]
    assert "was lost during attempt 1" in engine.attempts(run)[0]["error"]
    assert engine.succeed(worker, claim) == []
    fresh = engine.worker()
    assert engine.claim(fresh) == []
    (alone,) = engine.claim_suspect(fresh)
    assert (alone["id"], alone["attempt"], alone["is_suspect"]) == (run, 2, True)
    engine.succeed(fresh, alone)
    assert [row["is_redelivery"] for row in engine.attempts(run)] == [False, True]


def test_suspects_are_taken_one_at_a_time(engine: Engine) -> None:
    for _ in range(3):
        engine.enqueue()
    worker = engine.worker()
    engine.claim(worker)
    engine.lose(worker)
    engine.rescue()
    assert len(engine.claim_suspect(engine.worker())) == 1


def test_an_attempt_that_fails_alone_clears_the_suspicion(engine: Engine) -> None:
    run, worker, fresh = engine.enqueue(), engine.worker(), engine.worker()
    engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    (alone,) = engine.claim_suspect(fresh)
    engine.requeue(fresh, alone)
    assert engine.claim_one(fresh)["id"] == run


def test_a_suspect_handed_back_stays_one(engine: Engine) -> None:
    engine.enqueue()
    worker, fresh = engine.worker(), engine.worker()
    engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    (alone,) = engine.claim_suspect(fresh)
    engine.hand_back(fresh, alone)
    assert engine.claim(fresh) == []
    assert len(engine.claim_suspect(fresh)) == 1


def test_without_attempts_left_it_has_failed(engine: Engine) -> None:
    run, worker = engine.enqueue(max_attempts=1, key="a"), engine.worker()
    engine.claim_one(worker)
    engine.lose(worker)
    assert engine.rescue() == {run: "failed"}
    ended = engine.run(run)
    assert (ended["state"], ended["end_reason"]) == ("failed", "attempts used up")
    assert engine.attempt_states(run) == ["lost"]
    assert engine.enqueue(key="a") != run


def test_what_had_not_started_goes_back_free(engine: Engine) -> None:
    started, waiting = engine.enqueue(), engine.enqueue(max_attempts=1)
    worker = engine.worker()
    engine.claim_one(worker, batch=1)
    engine.claim_one(worker, batch=2, start_batch=1)
    engine.lose(worker)
    assert engine.rescue() == {started: "requeued", waiting: "handed back"}
    shown = engine.run(waiting)
    assert (shown["state"], shown["attempts_used"], shown["held_by"]) == ("queued", 0, None)
    assert engine.attempts(waiting) == []
    assert engine.claim_one(engine.worker())["id"] == waiting


def test_a_neighbour_on_its_last_attempt_does_not_end_with_its_batch(engine: Engine) -> None:
    run = engine.enqueue(max_attempts=1)
    worker, fresh = engine.worker(), engine.worker()
    engine.claim_one(worker, batch=1)
    engine.claim(worker, batch=2, start_batch=1)
    engine.lose(worker)
    assert engine.rescue() == {run: "suspected"}
    assert engine.run(run)["attempts_used"] == 0
    assert engine.attempt_states(run) == ["lost"]

    # Claimed alone it starts with its claim: now the loss is certainly its own.
    engine.claim_suspect(fresh)
    engine.lose(fresh)
    assert engine.rescue() == {run: "failed"}


def test_a_beat_forgets_old_starts_but_not_what_they_mean(engine: Engine) -> None:
    runs = [engine.enqueue() for _ in range(3)]
    worker = engine.worker()
    engine.claim_one(worker, batch=1)
    engine.claim_one(worker, batch=2, start_batch=1)
    engine.claim_one(worker, batch=3, start_batch=2)
    assert engine.beat(worker)
    assert engine.one("SELECT count(*) FROM rota.batch_starts") == 1
    engine.lose(worker)
    assert engine.rescue() == {runs[0]: "requeued", runs[1]: "requeued", runs[2]: "handed back"}


def test_what_somebody_asked_to_cancel_is_cancelled(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.claim_one(worker)
    engine.cancel(run, "stop it", "ann")
    engine.lose(worker)
    assert engine.rescue() == {run: "cancelled"}
    ended = engine.run(run)
    assert (ended["state"], ended["end_reason"]) == ("cancelled", "cancelled by ann: stop it")
    assert engine.attempt_states(run) == ["lost"]


def test_a_lost_worker_hears_it_from_its_beat(engine: Engine) -> None:
    worker = engine.worker()
    assert engine.beat(worker) is True
    engine.expire(worker)
    assert engine.beat(worker) is True, "nobody has noticed: the lease is still its own"
    engine.lose(worker)
    assert engine.beat(worker) is False
    assert engine.beat(999) is False


def test_a_stopping_worker_can_be_lost_too(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.claim_one(worker)
    engine.conn.execute("UPDATE rota.workers SET state = 'stopping' WHERE id = %s", [worker])
    assert engine.beat(worker) is True
    engine.lose(worker)
    assert engine.rescue() == {run: "requeued"}


def test_the_net_finds_runs_of_workers_that_nobody_remembers(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.claim_one(worker)
    engine.conn.execute("DELETE FROM rota.workers")
    assert engine.rescue() == {}
    assert engine.rescue(everywhere=True) == {run: "requeued"}


def test_a_claim_that_commits_after_the_loss_is_rescued(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run, worker = engine.enqueue(), engine.worker()
    slow = Engine(connect(autocommit=False))
    slow.claim_one(worker)
    engine.lose(worker)
    assert engine.rescue() == {}
    slow.conn.commit()
    assert engine.rescue() == {run: "requeued"}


def test_a_row_that_somebody_locks_does_not_stop_the_rescue(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    runs, worker = [engine.enqueue() for _ in range(3)], engine.worker()
    engine.claim(worker)
    locker = connect(autocommit=False)
    locker.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [runs[1]])
    engine.lose(worker)
    assert set(engine.rescue()) == {runs[0], runs[2]}
    locker.rollback()
    assert set(engine.rescue()) == {runs[1]}


@pytest.mark.parametrize("seconds", [400 * 86400, -400 * 86400])
def test_a_jump_of_the_clock_moves_no_lease(engine: Engine, seconds: float) -> None:
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim_one(worker)
    engine.advance(seconds)
    assert engine.mark_lost() == []
    assert engine.beat(worker) is True
    assert engine.rescue(everywhere=True) == {}
    assert engine.state(run) == "running"


def test_a_rescue_works_a_year_ahead(engine: Engine) -> None:
    """No partition of the history is there yet."""
    worker = engine.worker()
    last, again = engine.enqueue(max_attempts=1), engine.enqueue()
    engine.claim(worker)
    engine.lose(worker)
    engine.advance(365 * 86400)
    assert engine.rescue() == {last: "failed", again: "requeued"}
