"""Cancel, retry: what operators do to runs, and what the audit keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rota.model.run_filter import RunFilter
from tests.sql_engine import Engine


@pytest.mark.parametrize("state", ["queued", "scheduled", "held"])
def test_a_waiting_run_is_cancelled_at_once(engine: Engine, state: str) -> None:
    run = engine.enqueue(delay="1 hour" if state == "scheduled" else None)
    if state == "held":
        engine.park()
    assert engine.cancel(run, "no longer wanted", "ann") == "cancelled"
    ended = engine.run(run)
    assert ended["state"] == "cancelled"
    assert ended["end_reason"] == "cancelled by ann: no longer wanted"
    assert engine.attempts(run) == []
    (said,) = engine.audit(run)
    assert (said["actor"], said["action"], said["reason"]) == (
        "ann", "run.cancelled", "no longer wanted",
    )  # fmt: skip
    assert said["before"] == {"state": "scheduled" if state == "scheduled" else "queued"}


def test_cancelling_what_runs_is_a_request(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker)
    assert engine.cancel(run, actor="ann") == "requested"
    assert engine.cancel(run, "hurry", "ben") == "requested"
    (request,) = engine.rows("SELECT * FROM rota.cancel_requests")
    assert (request["worker"], request["attempt"], request["requested_by"]) == (worker, 1, "ben")
    assert engine.state(run) == "running"
    assert engine.succeed(worker, claim) == [run]
    assert engine.state(run) == "succeeded"


def test_a_request_ends_a_run_that_would_go_on(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker)
    engine.cancel(run, "enough", "ann")
    assert engine.requeue(worker, claim, delay=10) == [run]
    ended = engine.run(run)
    assert (ended["state"], ended["end_reason"]) == ("cancelled", "cancelled by ann: enough")
    assert engine.attempt_states(run) == ["failed"]


def test_a_request_does_not_reach_a_later_attempt(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker)
    engine.cancel(run)
    engine.fail(worker, claim)
    engine.retry(run)
    again = engine.claim_one(worker)
    assert engine.requeue(worker, again) == [run]
    assert engine.state(run) == "queued"


def test_an_ended_run_cannot_be_cancelled(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.succeed(worker, engine.claim_one(worker))
    with pytest.raises(psycopg.Error, match="has already ended") as caught:
        engine.cancel(run)
    assert caught.value.sqlstate == "RO005"


def test_an_open_cancel_does_not_hold_up_the_finish(
    engine: Engine, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run, worker = engine.enqueue(), engine.worker()
    claim = engine.claim_one(worker)
    operator = Engine(connect(autocommit=False))
    operator.cancel(run)
    assert engine.succeed(worker, claim) == [run]
    operator.conn.commit()


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_retry_is_the_same_run_once_more(engine: Engine, state: str) -> None:
    run, worker = engine.enqueue(payload={"n": 1}, max_attempts=2), engine.worker()
    engine.requeue(worker, engine.claim_one(worker))
    claim = engine.claim_one(worker)
    if state == "failed":
        engine.fail(worker, claim)
    else:
        engine.fail(worker, claim, state="cancelled", attempt_state="cancelled", reason="by hand")
    created = engine.run(run)["created_at"]
    assert engine.retry(run, reason="fixed", actor="ann") == run
    shown = engine.run(run)
    used = 2 if state == "failed" else 1
    assert (shown["state"], shown["attempt"], shown["attempts_used"]) == ("queued", 2, used)
    assert shown["max_attempts"] == used + 3
    assert (shown["created_at"], shown["payload"]) == (created, {"n": 1})
    assert engine.one("SELECT count(*) FROM rota.runs WHERE id = %s", run) == 1
    assert engine.attempt_states(run) == ["failed", state]
    claim = engine.claim_one(worker)
    assert claim["attempt"] == 3
    engine.succeed(worker, claim)
    assert engine.attempt_states(run) == ["failed", state, "succeeded"]
    (said,) = engine.audit(run)
    assert (said["actor"], said["action"], said["reason"]) == ("ann", "run.retried", "fixed")


def test_a_retry_of_what_never_ran(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.cancel(run)
    engine.retry(run)
    assert engine.attempts(run) == []
    assert engine.claim_one(worker)["attempt"] == 1


def test_a_retry_never_lowers_the_allowance(engine: Engine) -> None:
    run = engine.enqueue(max_attempts=10)
    engine.cancel(run)
    engine.retry(run)
    assert engine.run(run)["max_attempts"] >= 10


def test_a_retry_can_wait_and_change_the_payload(engine: Engine) -> None:
    run, worker = engine.enqueue(payload={"n": 1}), engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    engine.retry(run, payload={"n": 2}, delay="1 hour")
    shown = engine.run(run)
    assert (shown["state"], shown["payload"]) == ("scheduled", {"n": 2})
    (said,) = engine.audit(run)
    assert said["before"]["payload"] == {"n": 1}
    assert said["after"]["payload"] == {"n": 2}
    assert said["after"]["state"] == "scheduled"


def test_the_audit_has_no_payload_that_is_in_the_run(engine: Engine) -> None:
    run, worker = engine.enqueue(payload={"n": 1}), engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    engine.retry(run)
    engine.fail(worker, engine.claim_one(worker))
    engine.retry(run, payload={"n": 1})
    assert [it["before"] for it in engine.audit(run)] == [{"state": "failed"}] * 2
    assert [it["after"] for it in engine.audit(run)] == [{"state": "queued"}] * 2


@pytest.mark.parametrize("how", ["by hand", "by count", "with its partition"])
def test_a_payload_leaves_the_audit_with_its_run(engine: Engine, how: str) -> None:
    """One that was replaced, even where the run never had more than one attempt."""
    run, worker = engine.enqueue(payload={"n": 1}), engine.worker()
    engine.cancel(run, "wrong")
    engine.retry(run, payload={"n": 2}, reason="corrected")
    engine.succeed(worker, engine.claim_one(worker))
    assert engine.audit(run)[1]["before"] == {"state": "cancelled", "payload": {"n": 1}}
    if how == "by hand":
        engine.one("SELECT rota.delete_run(%s)", run)
    elif how == "by count":
        prune = "SELECT rota.prune_runs('work', '{succeeded}', 'infinity', 0, '', 10)"
        assert engine.one(prune) == 1
    else:
        part = engine.one("SELECT tableoid::regclass::text FROM rota.ended_runs").split(".")[1]
        engine.one("SELECT rota.prune_traces(%s, 0, false, 10)", part)
    said = engine.audit(run)[1]
    assert (said["before"], said["after"]) == ({"state": "cancelled"}, {"state": "queued"})
    assert (said["action"], said["reason"]) == ("run.retried", "corrected")


def test_a_retry_forgets_the_expiry(engine: Engine) -> None:
    run, worker = engine.enqueue(expires_at=engine.one("SELECT rota.now()")), engine.worker()
    claim = engine.claim_one(worker)
    engine.fail(worker, claim, state="cancelled", attempt_state="cancelled", reason="expired")
    engine.retry(run)
    assert not engine.claim_one(worker)["is_expired"]


@pytest.mark.parametrize("state", ["queued", "scheduled", "running", "succeeded"])
def test_other_states_cannot_be_retried(engine: Engine, state: str) -> None:
    run, worker = engine.enqueue(delay="1 hour" if state == "scheduled" else None), engine.worker()
    if state in ("running", "succeeded"):
        claim = engine.claim_one(worker)
        if state == "succeeded":
            engine.succeed(worker, claim)
    with pytest.raises(psycopg.Error, match=f"run {run} is {state}") as caught:
        engine.retry(run)
    assert caught.value.sqlstate == "RO005"
    assert engine.audit(run) == []


def test_a_retry_with_a_bad_payload_changes_nothing(engine: Engine) -> None:
    run, worker = engine.enqueue(), engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    with pytest.raises(psycopg.Error, match="must be a JSON object"):
        engine.one("SELECT rota.retry_run(%s, '[]')", run)
    assert engine.state(run) == "failed"


def test_the_actor_can_be_a_setting_of_the_session(engine: Engine) -> None:
    run = engine.enqueue()
    engine.conn.execute("SET rota.actor = 'carol'")
    engine.cancel(run)
    assert engine.run(run)["end_reason"] == "cancelled by carol"
    assert engine.audit(run)[0]["actor"] == "carol"


def test_a_bulk_action_takes_the_filters_of_lists_and_no_others(engine: Engine) -> None:
    """An unknown one that was left out would fit more runs than somebody meant."""
    with pytest.raises(psycopg.Error, match='unknown filter "jobs"') as caught:
        engine.one("SELECT rota.start_bulk_action('cancel', '{\"jobs\": \"work\"}')")
    assert caught.value.sqlstate == "RO002"
    known = str(caught.value.diag.message_hint).removeprefix("Choose from ").removesuffix(".")
    assert known.split(", ") == list(RunFilter.__dataclass_fields__)


def test_an_unknown_action_is_refused(engine: Engine) -> None:
    with pytest.raises(psycopg.Error, match='unknown action "stop"') as caught:
        engine.rows("SELECT * FROM rota.act_on_runs('stop', '{1}')")
    assert caught.value.sqlstate == "RO002"
