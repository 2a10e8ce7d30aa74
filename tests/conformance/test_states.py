"""Every way that a run can go, by the SQL functions alone."""

from __future__ import annotations

import pytest

from tests.sql_engine import Engine


def test_a_run_waits_runs_and_succeeds(engine: Engine) -> None:
    run = engine.enqueue(payload={"a": 1})
    assert engine.state(run) == "queued"
    worker = engine.worker()
    claim = engine.claim_one(worker)
    assert (claim["id"], claim["attempt"], claim["payload"]) == (run, 1, {"a": 1})
    assert engine.state(run) == "running"
    assert engine.run(run)["worker"] == worker
    assert engine.attempt_states(run) == ["running"]
    assert engine.succeed(worker, claim, result={"ok": True}) == [run]
    ended = engine.run(run)
    assert (ended["state"], ended["result"], ended["end_reason"]) == (
        "succeeded",
        {"ok": True},
        None,
    )
    assert ended["finished_at"] >= ended["started_at"]
    assert engine.attempt_states(run) == ["succeeded"]


def test_a_later_run_waits_for_its_time(engine: Engine) -> None:
    run = engine.enqueue(delay="1 hour")
    worker = engine.worker()
    assert engine.state(run) == "scheduled"
    assert engine.promote() == 0
    assert engine.claim(worker) == []
    engine.advance(3601)
    assert engine.promote() == 1
    assert engine.claim_one(worker)["id"] == run


def test_what_was_due_first_is_claimed_first_after_a_promotion(engine: Engine) -> None:
    later = engine.enqueue(delay="2 hours")
    sooner = engine.enqueue(delay="1 hour")
    engine.advance(3 * 3600)
    engine.promote()
    assert [claim["id"] for claim in engine.claim(engine.worker())] == [sooner, later]


def test_a_failed_attempt_is_spent_and_tried_again(engine: Engine) -> None:
    run, worker = engine.enqueue(max_attempts=2), engine.worker()
    assert engine.requeue(worker, engine.claim_one(worker), delay=60) == [run]
    assert engine.state(run) == "scheduled"
    assert engine.run(run)["last_error"] == "boom"
    engine.advance(61)
    engine.promote()
    claim = engine.claim_one(worker)
    assert (claim["attempt"], claim["attempts_used"]) == (2, 1)
    engine.fail(worker, claim, "again")
    ended = engine.run(run)
    assert (ended["state"], ended["end_reason"], ended["last_error"]) == (
        "failed", "attempts used up", "again",
    )  # fmt: skip
    assert engine.attempt_states(run) == ["failed", "failed"]
    assert [row["is_spent"] for row in engine.attempts(run)] == [True, True]


def test_a_retry_without_delay_goes_to_the_end_of_the_line(engine: Engine) -> None:
    first, second = engine.enqueue(), engine.enqueue()
    worker = engine.worker()
    engine.requeue(worker, engine.claim_one(worker), delay=0)
    assert [claim["id"] for claim in engine.claim(worker)] == [second, first]


def test_a_cut_off_run_keeps_its_place(engine: Engine) -> None:
    first, second = engine.enqueue(), engine.enqueue()
    worker = engine.worker()
    engine.requeue(worker, engine.claim_one(worker), delay=None, state="cancelled", spent=False)
    assert [claim["id"] for claim in engine.claim(worker)] == [first, second]


def test_a_snooze_spends_nothing_but_the_number_rises(engine: Engine) -> None:
    run, worker = engine.enqueue(max_attempts=1), engine.worker()
    for number in range(1, 4):
        claim = engine.claim_one(worker)
        assert (claim["attempt"], claim["attempts_used"]) == (number, 0)
        engine.requeue(worker, claim, state="snoozed", spent=False, error=None)
    assert engine.attempt_states(run) == ["snoozed"] * 3
    assert engine.run(run)["attempts_used"] == 0


def test_handing_back_leaves_no_trace_but_the_number(engine: Engine) -> None:
    run, worker = engine.enqueue(max_attempts=1), engine.worker()
    claim = engine.claim_one(worker, batch=1)
    assert engine.hand_back(worker, claim) == [run]
    assert engine.state(run) == "queued"
    assert engine.attempts(run) == []
    assert engine.claim_one(worker)["attempt"] == 2


def test_a_cancel_request_survives_handing_back(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker, batch=1)
    assert engine.cancel(run, actor="ann") == "requested"
    engine.hand_back(worker, claim)
    assert engine.state(run) == "cancelled"
    assert engine.run(run)["end_reason"] == "cancelled by ann"


def test_an_expired_run_is_marked_in_its_claim(engine: Engine) -> None:
    engine.enqueue(expires_at=engine.one("SELECT rota.now() + interval '1 hour'"))
    worker = engine.worker()
    claim = engine.claim_one(worker)
    assert claim["is_expired"] is False
    engine.hand_back(worker, claim)
    engine.advance(3601)
    claim = engine.claim_one(worker)
    assert claim["is_expired"] is True
    engine.fail(worker, claim, state="cancelled", attempt_state="cancelled", reason="expired")
    assert engine.run(claim["id"])["end_reason"] == "expired"


@pytest.mark.parametrize("how", ["other worker", "older attempt", "ended", "handed back"])
def test_the_fence_refuses_everybody_but_the_owner(engine: Engine, how: str) -> None:
    run, worker, thief = engine.enqueue(), engine.worker(), engine.worker()
    claim = engine.claim_one(worker)
    late = dict(claim)
    if how == "other worker":
        worker, thief = thief, worker
    elif how == "older attempt":
        engine.requeue(worker, claim, delay=0)
        claim = engine.claim_one(worker)
    elif how == "ended":
        engine.succeed(worker, claim)
    else:
        engine.hand_back(worker, claim)
    before = engine.run(run), engine.attempts(run)
    assert engine.succeed(worker, late) == []
    assert engine.succeed_span(worker, late) == 0
    assert engine.fail(worker, late) == []
    assert engine.requeue(worker, late) == []
    assert engine.hand_back(worker, late) == []
    engine.progress(worker, late, 0.5, "late")
    assert (engine.run(run), engine.attempts(run)) == before


def test_the_accepted_part_of_a_batch_is_written(engine: Engine) -> None:
    runs, worker = [engine.enqueue() for _ in range(3)], engine.worker()
    claims = engine.claim(worker)
    engine.hand_back(worker, claims[1])
    assert set(engine.succeed(worker, *claims)) == {runs[0], runs[2]}
    assert [engine.state(run) for run in runs] == ["succeeded", "queued", "succeeded"]


def test_a_span_ends_runs_as_single_ends_do(engine: Engine) -> None:
    options = {"tags": ["a"], "tenant": "t", "timeout_seconds": 60.0}
    runs, worker = [engine.enqueue(**options) for _ in range(2)], engine.worker()
    one, other = engine.claim(worker)
    engine.progress(worker, one, 0.5, "half")
    engine.progress(worker, other, 0.5, "half")
    engine.succeed(worker, one, result={"a": 1})
    assert engine.succeed_span(worker, other, result={"a": 1}) == 1
    differs = {"id", "created_at", "started_at", "finished_at", "enqueued_at", "run_at"}
    first, second = (
        {key: value for key, value in engine.run(run).items() if key not in differs} for run in runs
    )
    assert first == second
    assert [engine.attempt_states(run) for run in runs] == [["succeeded"]] * 2


def test_a_span_leaves_alone_what_has_not_ended_or_is_not_plain(engine: Engine) -> None:
    runs = [engine.enqueue(key=key) for key in (None, "k", None, None)]
    worker = engine.worker()
    claims = engine.claim(worker)
    assert engine.succeed_span(worker, *claims, missing=[runs[2]]) == 2
    assert [engine.state(run) for run in runs] == ["succeeded", "running", "running", "succeeded"]
    assert set(engine.succeed(worker, *claims)) == {runs[1], runs[2]}


def test_a_span_keeps_runs_as_their_rules_say(engine: Engine) -> None:
    engine.conn.execute("INSERT INTO rota.keep_rules VALUES ('work', 'succeeded', 'short')")
    engine.enqueue()
    worker = engine.worker()
    assert engine.succeed_span(worker, engine.claim_one(worker)) == 1
    assert engine.one("SELECT keep_class FROM rota.ended_runs") == "short"


def test_priority_first_then_age(engine: Engine) -> None:
    order = [engine.enqueue(priority=priority) for priority in (5, 0, 9, 5, 0)]
    worker = engine.worker()
    claimed = [engine.claim_one(worker)["id"] for _ in order]
    assert claimed == [order[1], order[4], order[0], order[3], order[2]]


def test_a_claim_takes_only_its_queues_jobs_and_quota(engine: Engine) -> None:
    engine.job("rest")
    mail = [engine.enqueue(queue="mail") for _ in range(3)]
    default = [engine.enqueue() for _ in range(3)]
    engine.enqueue("rest")
    engine.enqueue(queue="elsewhere")
    worker = engine.worker()
    claims = engine.claim(worker, 4, ["mail", "default"], quota=2)
    assert {claim["id"] for claim in claims} == {*mail[:2], *default[:2]}
    assert len(engine.claim(worker, 10, ["mail", "default"])) == 2


def test_a_paused_queue_is_not_claimed_from(engine: Engine) -> None:
    run, worker = engine.enqueue(queue="mail"), engine.worker()
    engine.conn.execute("SELECT rota.pause_queue('mail', 'upgrade', 'ann')")
    assert engine.claim(worker, queues=["mail"]) == []
    assert engine.one("SELECT rota.pause_queue('mail')") is False
    engine.conn.execute("SELECT rota.resume_queue('mail', 'done', 'ben')")
    assert engine.claim_one(worker, queues=["mail"])["id"] == run
    assert engine.one("SELECT rota.resume_queue('mail')") is False
    said = [(row["actor"], row["action"], row["reason"]) for row in engine.audit("mail")]
    assert said == [("ann", "queue.paused", "upgrade"), ("ben", "queue.resumed", "done")]


def test_a_worker_that_is_not_live_cannot_claim(engine: Engine) -> None:
    engine.enqueue()
    expired, stopping, gone = engine.worker(), engine.worker(), engine.worker()
    engine.expire(expired)
    engine.conn.execute("UPDATE rota.workers SET state = 'stopping' WHERE id = %s", [stopping])
    engine.conn.execute(
        "UPDATE rota.workers SET state = 'gone', ended_at = now() WHERE id = %s", [gone]
    )
    for worker in (expired, stopping, gone, 999):
        with pytest.raises(Exception, match="not live") as caught:
            engine.claim(worker)
        assert caught.value.sqlstate == "RO006"  # type: ignore[attr-defined]


def test_progress_is_shown_and_forgotten_with_the_attempt(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker)
    engine.progress(worker, claim, 0.5, "half")
    shown = engine.run(run)
    assert (shown["progress"], shown["message"]) == (0.5, "half")
    engine.requeue(worker, claim)
    assert engine.run(run)["progress"] is None
