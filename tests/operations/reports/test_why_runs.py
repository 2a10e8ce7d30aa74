"""`why` of a run: every reason is provoked, and says what it should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import rota
from tests.operations.reports.why import Asker
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    return engine


@pytest.fixture
def why(app: rota.App, engine: Engine) -> Iterator[Asker]:
    asker = Asker(app, engine)
    yield asker
    asker.run_printed()


# It waits for a worker.


def test_no_worker_is_running(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    assert why.codes(run) == ["no_worker", "next_in_line"]
    assert why(run)["no_worker"].sentence == "No worker is running."
    engine.lose(worker := engine.worker())
    reason = why(run)["no_worker"]
    assert reason.sentence == f"No worker is running: the last one, worker {worker} (w), was lost."
    assert reason.since is not None
    assert reason.command == "rota worker"


def test_a_worker_whose_lease_ran_out_is_none(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.expire(engine.worker())
    assert why.codes(run)[0] == "no_worker"


def test_whoever_could_take_it_is_asleep(why: Asker, engine: Engine) -> None:
    worker = engine.worker()
    engine.one("SELECT rota.fall_asleep(%s, 100, true)", worker)
    run, later = engine.enqueue(), engine.enqueue(delay="1 hour")
    assert why.codes(run) == ["workers_asleep", "next_in_line"]
    reason = why(run)["workers_asleep"]
    assert reason.sentence == (
        f"All suitable workers are asleep, without a connection to the database: {worker} (w)."
    )
    assert reason.next_step.endswith("to wake one now, send SIGUSR1 to process 1 on host.")
    assert reason.until is not None
    assert why.codes(later) == ["waits_for_time"], "they wake for it"
    engine.worker("other")
    assert why.codes(run)[0] == "workers_asleep"
    engine.worker()
    assert why.codes(run) == ["next_in_line"]


def test_its_queue_is_paused(why: Asker, engine: Engine) -> None:
    engine.worker()
    run = engine.enqueue(queue="mail")
    engine.one("SELECT rota.pause_queue('mail', 'the provider is down', actor => 'grace')")
    assert why.codes(run) == ["queue_paused", "next_in_line"]
    reason = why(run)["queue_paused"]
    assert reason.sentence == "Queue mail is paused by grace: “the provider is down”."
    assert reason.since is not None
    assert (reason.by_whom, reason.until) == ("grace", None)
    assert reason.command == "rota queues resume mail"
    assert reason.facts == {"queue": "mail"}


def test_its_queue_is_paused_until_a_time(why: Asker, engine: Engine) -> None:
    engine.worker()
    run = engine.enqueue(queue="mail")
    until = engine.one("SELECT rota.now() + interval '1 hour'")
    engine.one("SELECT rota.pause_queue('mail', until => %s)", until)
    reason = why(run)["queue_paused"]
    assert reason.until == until
    assert reason.next_step == (
        "The queue resumes automatically when the pause ends; running attempts continue."
    )
    engine.advance(3601)
    assert why.codes(run) == ["next_in_line"], "before anybody has written it down"


def test_tenants_take_turns(why: Asker, engine: Engine) -> None:
    engine.worker()
    run, behind = engine.enqueue(tenant="acme"), engine.enqueue(tenant="acme")
    engine.enqueue(tenant="blue")
    assert why.codes(run) == ["next_of_tenant"]
    sentence = "It is the next run of its tenant in queue default, which 1 other tenant uses too."
    assert why(run)["next_of_tenant"].sentence == sentence
    reason = why(behind)["in_line"]
    assert reason.sentence == "1 run waits ahead of it in queue default."
    assert reason.next_step.startswith("Its tenant takes turns with 1 other tenant, by weight. ")


def test_its_tenant_is_paused(why: Asker, engine: Engine) -> None:
    engine.worker()
    run, later = engine.enqueue(tenant="acme"), engine.enqueue(tenant="acme", delay="1 hour")
    engine.one("SELECT rota.pause_tenant('acme', 'invoice 17', actor => 'grace')")
    assert why.codes(run) == ["tenant_paused"]
    reason = why(run)["tenant_paused"]
    assert reason.sentence == "Tenant acme is paused by grace: “invoice 17”."
    assert (reason.by_whom, reason.until) == ("grace", None)
    assert reason.command == "rota tenants resume acme"
    assert why.codes(later) == ["waits_for_time", "tenant_paused"], "what will hold it then"
    engine.one("SELECT rota.pause_tenant('acme', until => rota.now() + interval '1 hour')")
    assert why(run)["tenant_paused"].until is not None
    engine.advance(3601)
    assert why.codes(run) == ["held"], "nobody has freed it yet"
    assert why(run)["held"].sentence == "It is held: tenant acme was paused until a moment ago."


def test_its_job_is_disabled(why: Asker, engine: Engine) -> None:
    engine.worker()
    run = engine.enqueue()
    engine.one("SELECT rota.set_job_enabled('work', false, 'bad release', 'grace')")
    reason = why(run)["job_disabled"]
    assert reason.sentence == "Job work is disabled by grace: “bad release”."
    assert reason.by_whom == "grace"
    assert reason.command == "rota jobs enable work"


def test_no_code_declares_its_job_any_more(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.worker()
    engine.rows("UPDATE rota.jobs SET deleted_from_code_at = rota.now() WHERE name = 'work'")
    reason = why(run)["job_deleted"]
    assert reason.sentence == "No code declares job work any more."
    assert reason.command == "rota runs cancel --job work"


def test_nobody_serves_its_queue(why: Asker, engine: Engine) -> None:
    run = engine.enqueue(queue="mail")
    engine.worker(queues=["reports", "default"])
    reason = why(run)["queue_unserved"]
    assert reason.sentence == (
        "No live worker serves queue mail: the only live worker serves default, reports."
    )
    assert reason.command == "rota worker --queues mail"
    engine.worker(queues=["default"])
    assert "the 2 live workers serve default, reports." in why(run)["queue_unserved"].sentence


def test_nobody_knows_its_job(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.worker("other")
    assert why(run)["job_unknown"].sentence == (
        "No live worker knows job work: the only live worker runs other code."
    )
    assert engine.park() == 1
    assert why.codes(run) == ["job_unknown"]
    assert why(run)["job_unknown"].since is not None, "since it was parked"


def test_a_worker_that_knows_it_has_just_come(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.worker("other")
    engine.park()
    engine.worker("work")
    assert why.codes(run) == ["held"]


def test_who_knows_its_job_serves_another_queue(why: Asker, engine: Engine) -> None:
    run = engine.enqueue(queue="mail")
    engine.worker("work", queues=["default"])
    engine.worker("other", queues=["mail"])
    assert why.codes(run) == ["worker_mismatch", "next_in_line"]


def test_workers_are_alive_but_failing(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    worker = engine.worker()
    engine.one("SELECT rota.beat(%s, errors => 4, trouble => 'claims: disk full')", worker)
    reason = why(run)["workers_failing"]
    assert reason.sentence == (
        f"The only worker is alive but failing: worker {worker} (w), claims: disk full."
    )
    assert reason.command == f"rota workers show {worker}"
    engine.one("SELECT rota.beat(%s, stuck => true)", worker)
    assert "its event loop is blocked" in why(run)["workers_failing"].sentence


def test_workers_are_draining(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    worker = engine.worker()
    engine.one("SELECT rota.drain_worker(%s, reason => 'new disks', actor => 'grace')", worker)
    reason = why(run)["workers_draining"]
    assert reason.sentence == "The only worker is draining, as requested by grace: “new disks”."
    assert (reason.by_whom, reason.command) == ("grace", f"rota workers resume {worker}")


def test_all_slots_are_busy(why: Asker, engine: Engine) -> None:
    engine.job("other")
    worker = engine.worker("work", "other")
    busy = [engine.enqueue() for _ in range(8)] + [engine.enqueue("other") for _ in range(2)]
    assert len(engine.claim(worker, 10, jobs=["work", "other"])) == 10
    run = engine.enqueue()
    assert why.codes(run) == ["slots_busy", "next_in_line"]
    reason = why(run)["slots_busy"]
    assert reason.sentence.startswith(
        f"All 10 slots of 1 worker are busy with work (8), other (2); run {busy[0]} of work"
        " has taken the longest, "
    )
    assert reason.since is not None
    engine.worker("work", "other")
    assert why.codes(run) == ["next_in_line"], "another one has room"


# Its place in line.


def test_its_place_and_expected_start(why: Asker, engine: Engine) -> None:
    engine.worker()
    for _ in range(3):
        engine.enqueue()
    run = engine.enqueue()
    reason = why(run)["in_line"]
    assert reason.sentence == "3 runs wait ahead of it in queue default."
    assert (reason.facts["place"], reason.facts["is_exact"], reason.until) == (4, True, None)
    urgent = engine.enqueue(priority=0)
    assert why.codes(urgent) == ["next_in_line"]
    assert why(run)["in_line"].facts["place"] == 5
    engine.rows(
        "INSERT INTO rota.rollup_minutes VALUES"
        " (date_trunc('minute', rota.now()) - interval '5 min', 'work', 'default', 'succeeded',"
        " 0, 600, 1, 1, 0)"
    )
    reason = why(run)["in_line"]
    assert reason.until is not None
    assert "per minute, it starts at about the time shown" in reason.next_step


def test_what_a_disabled_job_has_in_line_is_not_before_it(why: Asker, engine: Engine) -> None:
    engine.job("off")
    engine.worker()
    engine.enqueue("off")
    engine.one("SELECT rota.set_job_enabled('off', false)")
    assert why.codes(engine.enqueue()) == ["next_in_line"]


def test_a_long_line_is_not_counted_to_its_end(why: Asker, engine: Engine) -> None:
    engine.worker()
    engine.rows("SELECT rota.enqueue_batch('work', (SELECT jsonb_agg('{}'::jsonb)"
                " FROM generate_series(1, 10001)))")  # fmt: skip
    reason = why(engine.enqueue())["in_line"]
    assert reason.sentence == "At least 10,001 runs wait ahead of it in queue default."
    assert (reason.facts["is_exact"], reason.until) == (False, None)


# It waits for a time.


def test_it_is_for_later(why: Asker, engine: Engine) -> None:
    engine.worker()
    run = engine.enqueue(delay="1 hour")
    assert why.codes(run) == ["waits_for_time"]
    reason = why(run)["waits_for_time"]
    assert reason.until == engine.run(run)["run_at"]
    engine.one("SELECT rota.pause_queue('default')")
    assert why.codes(run) == ["waits_for_time", "queue_paused"], "what will hold it then"


def test_nobody_has_put_it_in_line(why: Asker, engine: Engine) -> None:
    run = engine.enqueue(delay="1 hour")
    engine.advance(3601)
    assert why.codes(run) == ["not_promoted", "no_worker"]


def test_it_waits_for_its_backoff(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.requeue(worker, engine.claim_one(worker), 60, error="the mill stands\nstill")
    assert why.codes(run) == ["waits_for_backoff"]
    reason = why(run)["waits_for_backoff"]
    assert reason.sentence == (
        "Attempt 1 failed: “the mill stands”. It is waiting to be retried,"
        " with 1 of 3 attempts used."
    )
    assert reason.until == engine.run(run)["run_at"]


def test_its_handler_put_it_off(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.requeue(worker, engine.claim_one(worker), 60, state="snoozed", spent=False, error=None)
    assert why.codes(run) == ["snoozed"]


def test_its_last_attempt_failed_and_it_is_back_in_line(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.requeue(worker, engine.claim_one(worker), 0, state="timed_out", error="too slow")
    assert why.codes(run) == ["next_in_line", "attempt_failed"]
    assert why(run)["attempt_failed"].sentence == "Attempt 1 timed out: “too slow”."


# Its worker was lost.


def test_its_worker_is_not_heard_from(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.claim_one(worker)
    engine.expire(worker)
    assert why.codes(run) == ["worker_silent", "no_worker"]
    assert f"running on worker {worker} (w), which no longer sends heartbeats" in (
        why(run)["worker_silent"].sentence
    )


def test_its_worker_was_lost_and_it_is_isolated(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    helper = engine.worker()
    assert why.codes(run) == ["suspect", "worker_lost"]
    reasons = why(run)
    assert "within seconds" in reasons["suspect"].next_step
    assert reasons["worker_lost"].sentence == (f"Worker {worker} (w) was lost during attempt 1.")
    assert engine.claim_suspect(helper)
    assert why.codes(run) == ["running_isolated", "worker_lost"]
    assert "in a separate process" in why(run)["running_isolated"].sentence


def test_another_suspect_is_isolated_first(why: Asker, engine: Engine) -> None:
    lost = [engine.worker(), engine.worker()]
    first, second = engine.enqueue(), engine.enqueue()
    for worker in lost:
        engine.claim_one(worker)
        engine.lose(worker)
        engine.rescue()
    helper = engine.worker()
    engine.claim_suspect(helper)
    assert why(second)["suspect"].next_step == (
        f"Each worker isolates one run at a time; worker {helper} (w) is isolating run {first}."
    )


# It runs.


def test_it_runs(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue(timeout_seconds=30)
    engine.claim_one(worker)
    reason = why(run)["running"]
    assert reason.sentence == f"Worker {worker} (w) is running attempt 1."
    assert reason.since is not None
    assert reason.until is not None
    assert (reason.until - reason.since).total_seconds() == 30
    assert reason.next_step == (
        "If this attempt fails, the run is retried, with 2 of 3 attempts left."
        " It times out at the time shown."
    )


def test_it_runs_for_the_last_time(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue(max_attempts=1)
    engine.claim_one(worker)
    assert "becomes a dead letter" in why(run)["running"].next_step


def test_it_was_claimed_ahead(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.claim(worker, 1, batch=1)
    assert why.codes(run) == ["claimed_ahead"]


def test_somebody_asked_it_to_stop(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.claim_one(worker)
    engine.cancel(run, "wrong file", "grace")
    assert why.codes(run) == ["cancel_requested", "running"]
    reason = why(run)["cancel_requested"]
    assert reason.sentence == "Cancellation was requested by grace: “wrong file”."
    assert reason.by_whom == "grace"


def test_it_waits_for_others(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.worker()
    engine.rows("UPDATE rota.open_runs SET state = 'blocked'")
    assert why.codes(run) == ["blocked"]


# It has ended.


def test_it_succeeded(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.succeed(worker, engine.claim_one(worker))
    assert why.codes(run) == ["run_succeeded"]
    reason = why(run)["run_succeeded"]
    assert reason.sentence == "It succeeded on attempt 1 in 1 ms."
    assert (reason.since, reason.command) == (engine.run(run)["finished_at"], None)


def test_its_attempts_are_used_up(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue(max_attempts=1)
    engine.fail(worker, engine.claim_one(worker), "no such order")
    assert why.codes(run) == ["attempts_used_up"]
    reason = why(run)["attempts_used_up"]
    assert reason.sentence == (
        "It failed: “ValueError: no such order”. Its only attempt is used up."
    )
    assert reason.command == f"rota runs retry {run}"


def test_its_last_worker_was_lost(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue(max_attempts=1)
    engine.claim_one(worker)
    engine.lose(worker)
    engine.rescue()
    assert f"worker {worker} (w) was lost during attempt 1" in (
        why(run)["attempts_used_up"].sentence
    )


def test_it_gave_up(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.fail(worker, engine.claim_one(worker), "no", reason="gave up on ValueError")
    assert why(run)["gave_up"].sentence == (
        "It failed with ValueError, which its job does not retry: “ValueError: no”."
    )


def test_it_started_late_because_of_a_pause(why: Asker, engine: Engine) -> None:
    engine.one("SELECT rota.pause_queue('default', 'migration', 'grace')")
    run = engine.enqueue()
    engine.advance(3600)
    engine.one("SELECT rota.resume_queue('default')")
    engine.advance(600)
    worker = engine.worker()
    claim = engine.claim_one(worker)
    late = why(run)["started_late"].sentence
    assert late == (
        "It started 1 h 10 min late; queue default was paused by grace for 1 h of that time:"
        " “migration”."
    )
    engine.succeed(worker, claim)
    assert why.codes(run) == ["run_succeeded", "started_late"]
    assert why(run)["started_late"].by_whom == "grace"


def test_it_started_late_and_nobody_knows_why(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.advance(120)
    engine.claim_one(engine.worker())
    assert why(run)["started_late"].sentence == "It started 2 min late."


def test_it_failed_for_another_reason(why: Asker, engine: Engine) -> None:
    worker, run = engine.worker(), engine.enqueue()
    engine.fail(worker, engine.claim_one(worker), "no", reason="the moon was full")
    assert why(run)["run_failed"].sentence == ("It failed: the moon was full: “ValueError: no”.")


def test_nobody_knew_its_job_for_too_long(why: Asker, engine: Engine) -> None:
    engine.worker("other")
    run = engine.enqueue()
    engine.park()
    engine.advance(86_401)
    engine.rows("SELECT rota.fail_unknown_runs(86400, 100)")
    assert why.codes(run) == ["job_never_known"]


def test_it_was_cancelled(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.cancel(run, "wrong file", "grace")
    reason = why(run)["run_cancelled"]
    assert reason.sentence == "It was cancelled by grace: wrong file."
    assert (reason.by_whom, reason.command) == ("grace", f"rota runs retry {run}")


def test_its_job_was_deleted(why: Asker, engine: Engine) -> None:
    run = engine.enqueue()
    engine.one("SELECT rota.delete_job('work', cancel_open => true)")
    assert why(run)["run_cancelled"].sentence == "It was cancelled, because its job was deleted."


def test_it_expired(why: Asker, engine: Engine) -> None:
    run = engine.enqueue(expires_at=engine.one("SELECT rota.now() + interval '1 min'"))
    engine.advance(61)
    assert why.codes(run) == ["run_expired"], "before anybody has written it down"
    engine.one("SELECT rota.expire_runs(10)")
    assert why.codes(run) == ["run_expired"]


# Its key.


def test_others_are_duplicates_of_it(why: Asker, engine: Engine) -> None:
    worker = engine.worker()
    run = engine.enqueue(key="welcome-7", key_seconds=60)
    assert engine.enqueue_run(key="welcome-7")["is_duplicate"]
    reason = why(run)["holds_key"]
    assert reason.sentence == (
        "It holds key welcome-7: enqueueing job work with this key returns this run"
        " and creates no other."
    )
    engine.succeed(worker, engine.claim_one(worker))
    assert why(run)["holds_key"].until is not None
    engine.advance(61)
    assert "holds_key" not in why(run)


def test_another_run_has_its_key(why: Asker, engine: Engine) -> None:
    first = engine.enqueue(key="k")
    engine.cancel(first)
    second = engine.enqueue(key="k")
    reason = why(first)["key_held"]
    assert reason.sentence == f"Its key k is held by run {second}, so it cannot be retried."
    assert (reason.command, reason.facts["other"]) == (f"rota why {second}", second)


# Hostile words.


def test_names_and_reasons_are_not_read_as_templates_nor_by_a_shell(
    why: Asker, engine: Engine
) -> None:
    queue = "a'; rm -rf ~ {by} $(x)"
    run = engine.enqueue(queue=queue)
    engine.worker()
    engine.one("SELECT rota.pause_queue(%s, %s, 'eve {queue}')", queue, "x" * 5000 + "\nsecret")
    answer = why.app.why.sync(run)
    (reason,) = (one for one in answer.reasons if one.code == "queue_paused")
    assert reason.command == "rota queues resume 'a'\\''; rm -rf ~ {by} $(x)'"
    assert "eve {queue}" in reason.sentence
    assert "secret" not in reason.sentence
    assert len(reason.sentence) < 400


def test_a_name_that_begins_with_a_dash_is_no_option(why: Asker, engine: Engine) -> None:
    engine.job("--yes")
    engine.worker()
    engine.one("SELECT rota.set_job_enabled('--yes', false)")
    assert why("--yes", "job")["job_disabled"].command == "rota jobs enable -- --yes"
    engine.one("SELECT rota.set_job_enabled('--yes', true)")
    engine.rows("UPDATE rota.jobs SET deleted_from_code_at = rota.now() WHERE name = '--yes'")
    assert why("--yes", "job")["job_deleted"].command == "rota runs cancel --job --yes"


# Payloads of other releases.


def _refuse(engine: Engine, worker: int, intake: int) -> None:
    claim = engine.claim_one(worker)
    engine.one(
        "SELECT rota.refuse_runs(%s, ARRAY[%s::bigint], ARRAY[%s], ARRAY[1::real], ARRAY[%s], "
        "ARRAY[%s], ARRAY['PayloadError'], ARRAY['argument mode is missing'], NULL)",
        worker,
        claim["id"],
        claim["attempt"],
        intake,
        intake,
    )


def test_a_payload_that_workers_refused(why: Asker, engine: Engine) -> None:
    run = engine.enqueue(validated_by=5)
    worker, other = engine.worker(), engine.worker()
    engine.conn.execute("UPDATE rota.workers SET intakes = ARRAY[id], build = 'b' || id")
    _refuse(engine, worker, worker)
    assert why.codes(run)[0] == "payload_passed_on"
    assert why(run)["payload_passed_on"].sentence == (
        "It waits for a worker of another release: "
        f"payload refused by build b{worker}: argument mode is missing."
    )
    _refuse(engine, other, other)
    assert why.codes(run) == ["payload_refused"]
    reason = why(run)["payload_refused"]
    assert reason.sentence.startswith("No live worker accepts its payload: payload refused by ")
    assert f"build b{other}: argument mode is missing" in reason.sentence
    assert reason.since is not None
    assert reason.command == "rota runs retry --help"
