"""Lost workers: who is declared lost, and what becomes of their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rota.postgres.statements import Statements
from tests.sql_engine import Engine


def test_a_live_worker_is_left_alone(engine: Engine) -> None:
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim_one(worker)
    assert engine.mark_lost() == []
    assert engine.rescue() == {}
    assert engine.rescue(everywhere=True) == {}
    assert engine.state(run) == "running"


def test_a_run_lost_by_itself_loses_an_attempt_and_is_suspect(engine: Engine) -> None:
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


def test_what_a_worker_isolates_is_no_stray_of_its_claims(engine: Engine) -> None:
    """A broken connection of the claims says nothing about it: handed back, it would run twice."""
    run, worker = engine.enqueue(), engine.worker()
    engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    fresh, other = engine.worker(), engine.enqueue()
    engine.claim_suspect(fresh)
    engine.claim_one(fresh)
    strays = Statements("rota").get("runs/strays")
    found = engine.conn.execute(strays, {"worker": fresh}).fetchall()
    assert [row[0] for row in found] == [other]
    assert engine.state(run) == "running"


def lose_with(engine: Engine, *runs: int) -> dict[int, str]:
    """These and nothing else run on a worker that is lost."""
    worker = engine.worker()
    assert {row["id"] for row in engine.claim(worker)} == set(runs)
    engine.lose(worker)
    return engine.rescue()


def held(engine: Engine, run: int) -> tuple[str, str | None, int]:
    row = engine.run(run)
    return row["state"], row["held_by"], row["attempts_used"]


def test_runs_lost_together_go_back_to_normal_work_once(engine: Engine) -> None:
    runs = [engine.enqueue() for _ in range(3)]
    assert set(lose_with(engine, *runs).values()) == {"requeued"}
    assert {held(engine, run) for run in runs} == {("queued", None, 1)}
    assert engine.claim_suspect(engine.worker()) == []

    # Lost again, they are on their last attempt: one of them may be the cause.
    assert set(lose_with(engine, *runs).values()) == {"requeued"}
    assert {held(engine, run) for run in runs} == {("queued", "suspect", 2)}
    assert engine.claim(engine.worker()) == []


def test_a_run_lost_twice_is_a_suspect_with_many_attempts_left(engine: Engine) -> None:
    runs = [engine.enqueue(max_attempts=20) for _ in range(2)]
    lose_with(engine, *runs)
    lose_with(engine, *runs)
    assert {held(engine, run) for run in runs} == {("queued", "suspect", 2)}


def test_the_last_attempt_after_a_loss_is_isolated(engine: Engine) -> None:
    runs = [engine.enqueue(max_attempts=2), engine.enqueue()]
    lose_with(engine, *runs)
    assert [held(engine, run)[1] for run in runs] == ["suspect", None]


def test_sql_jobs_are_never_suspects(engine: Engine) -> None:
    engine.conn.execute(
        "CREATE FUNCTION public.f() RETURNS jsonb LANGUAGE sql AS $$ SELECT NULL::jsonb $$"
    )
    engine.job("by_sql", kind="sql", function_name="public.f")
    run, worker = engine.enqueue("by_sql", max_attempts=2), engine.worker("by_sql")
    engine.claim_one(worker, jobs=["by_sql"])
    engine.lose(worker)
    assert engine.rescue() == {run: "requeued"}
    assert held(engine, run) == ("queued", None, 1)


def test_suspects_are_taken_one_at_a_time(engine: Engine) -> None:
    runs = [engine.enqueue(max_attempts=2) for _ in range(3)]
    lose_with(engine, *runs)
    first, second = engine.worker(), engine.worker()
    (claim,) = engine.claim_suspect(first)
    assert claim["id"] == runs[0]
    assert engine.claim_suspect(first) == [claim], "the first answer may have been lost"
    assert [row["id"] for row in engine.claim_suspect(second)] == [runs[1]]
    engine.succeed(first, claim)
    assert [row["id"] for row in engine.claim_suspect(first)] == [runs[2]]


def test_one_worker_of_the_fleet_isolates_in_its_own_process(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    runs = [engine.enqueue(max_attempts=2) for _ in range(3)]
    lose_with(engine, *runs)
    first, second = engine.worker(), engine.worker()
    (claim,) = engine.claim_suspect(first, inline=["work"])
    assert engine.claim_suspect(second, inline=["work"]) == []
    assert len(engine.claim_suspect(second)) == 1, "in a process of its own it may"
    engine.succeed(first, claim)

    # Two ask at once: one of them is told to come again.
    other = Engine(connect(autocommit=False))
    assert len(other.claim_suspect(first, inline=["work"])) == 1
    third = engine.worker()
    assert engine.claim_suspect(third, inline=["work"]) == []
    other.conn.rollback()
    assert len(engine.claim_suspect(third, inline=["work"])) == 1


def test_a_suspect_in_its_worker_s_process_pays_alone(engine: Engine) -> None:
    suspect = engine.enqueue(max_attempts=3)
    lose_with(engine, suspect)
    innocents = [engine.enqueue(max_attempts=2) for _ in range(3)]
    worker = engine.worker()
    engine.claim_suspect(worker, inline=["work"])
    engine.claim(worker)
    engine.lose(worker)
    assert engine.rescue() == {suspect: "requeued", **dict.fromkeys(innocents, "freed")}
    assert held(engine, suspect) == ("queued", "suspect", 2)
    assert {held(engine, run) for run in innocents} == {("queued", None, 0)}
    assert engine.attempt_states(innocents[0]) == ["lost"]


def test_a_suspect_that_had_ended_frees_nobody(engine: Engine) -> None:
    suspect = engine.enqueue(max_attempts=3)
    lose_with(engine, suspect)
    other, worker = engine.enqueue(), engine.worker()
    (claim,) = engine.claim_suspect(worker, inline=["work"])
    engine.claim(worker)
    engine.succeed(worker, claim)
    engine.lose(worker)
    assert engine.rescue() == {other: "requeued"}


def test_a_suspect_on_its_last_attempt_does_not_end_with_a_neighbour(engine: Engine) -> None:
    """But not for ever: it may take whole machines with it."""
    suspect = engine.enqueue(max_attempts=2)
    lose_with(engine, suspect)
    for _ in range(3):
        worker, neighbour = engine.worker(), engine.enqueue()
        engine.claim_suspect(worker)
        engine.claim(worker)
        engine.lose(worker)
        assert engine.rescue() == {suspect: "suspected", neighbour: "requeued"}
        assert held(engine, suspect) == ("queued", "suspect", 1)
        assert held(engine, neighbour) == ("queued", None, 1)
        engine.cancel(neighbour)
    worker, neighbour = engine.worker(), engine.enqueue()
    engine.claim_suspect(worker)
    engine.claim(worker)
    engine.lose(worker)
    assert engine.rescue() == {suspect: "failed", neighbour: "requeued"}


def test_with_one_attempt_only_it_is_not_started_again(engine: Engine) -> None:
    once, other = engine.enqueue(max_attempts=1), engine.enqueue()
    assert lose_with(engine, once, other) == {once: "failed", other: "requeued"}


def test_a_suspect_whose_own_process_died_stays_one(engine: Engine) -> None:
    run = engine.enqueue(max_attempts=3)
    lose_with(engine, run)
    worker = engine.worker()
    (claim,) = engine.claim_suspect(worker)
    engine.requeue(worker, claim, state="lost", error="its process died")
    assert held(engine, run) == ("queued", "suspect", 2)


def test_a_suspect_cut_off_by_a_shutdown_stays_one(engine: Engine) -> None:
    suspect = engine.enqueue(max_attempts=2)
    lose_with(engine, suspect)
    worker = engine.worker()
    (claim,) = engine.claim_suspect(worker)
    engine.requeue(worker, claim, None, state="cancelled", spent=False)
    assert held(engine, suspect) == ("queued", "suspect", 1)


def test_a_run_lost_once_and_handed_back_is_in_nobody_s_way(engine: Engine) -> None:
    runs, worker = [engine.enqueue() for _ in range(2)], engine.worker()
    lose_with(engine, *runs)
    engine.hand_back(worker, *engine.claim(worker))
    assert len(engine.claim(worker)) == 2


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


def test_a_suspect_that_no_worker_knows_is_parked_and_comes_back_as_one(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    engine.worker("other")
    assert engine.park() == 1
    assert held(engine, run) == ("queued", "no_worker", 1)
    fresh = engine.worker()
    assert engine.free() == 1
    assert held(engine, run) == ("queued", "suspect", 1)
    assert len(engine.claim_suspect(fresh)) == 1
