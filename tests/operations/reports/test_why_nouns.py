"""`why` of schedules, jobs and queues: every reason is provoked, and says what it should."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from tests.operations.reports.why import Asker
from tests.scheduling import START, Schedules
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


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    await app.database.open()
    engine.worker()
    return Schedules(engine, app.database)


# Schedules: what an operator said.


async def test_it_waits_for_its_next_time(why: Asker, schedules: Schedules) -> None:
    schedules.add()
    await schedules.tick(seconds=1)
    assert why.codes("s") == ["waits_for_next"]
    assert why("s")["waits_for_next"].until == schedules.row()["next_run_at"]
    schedules.call("reschedule", "s", START.replace(hour=15))
    await schedules.tick(seconds=2)
    assert why.codes("s") == ["rescheduled"]
    assert why("s")["rescheduled"].until == START.replace(hour=15)


async def test_its_time_has_just_come(why: Asker, schedules: Schedules) -> None:
    schedules.add()
    await schedules.tick(seconds=1)
    schedules.set_clock(START + timedelta(seconds=66))
    reason = why("s")["due"]
    assert (reason.since, reason.until) == (START + timedelta(seconds=60), None)


async def test_its_time_has_just_come_and_nobody_is_there(
    why: Asker, schedules: Schedules, engine: Engine
) -> None:
    schedules.add()
    await schedules.tick(seconds=1)
    engine.rows("DELETE FROM rota.workers")
    schedules.set_clock(START + timedelta(seconds=66))
    assert "no_tick" in why("s")


async def test_a_set_time_is_undone_by_the_command_that_is_shown(
    why: Asker, schedules: Schedules, app: rota.App
) -> None:
    schedules.add()
    await schedules.tick(seconds=1)
    usual = schedules.row()["next_run_at"]
    app.schedules.sync.reschedule("s", "5h")
    assert why("s")["rescheduled"].command == "rota schedules reschedule s --at none"
    app.schedules.sync.reschedule("s", None)
    assert why.codes("s") == ["waits_for_next"]
    assert schedules.row()["next_run_at"] == usual


async def test_a_time_that_was_due_before_it_was_disabled_is_missed(
    why: Asker, schedules: Schedules
) -> None:
    schedules.add()
    await schedules.tick(seconds=1)
    schedules.set_clock(START + timedelta(seconds=130))
    schedules.call("disable_schedule", "s")
    schedules.call("enable_schedule", "s")
    await schedules.tick()
    assert why.codes("s")[:1] == ["missed_disabled"]
    schedules.call("disable_schedule", "s")
    schedules.set_clock(START + timedelta(seconds=250))
    schedules.call("enable_schedule", "s")
    await schedules.tick(seconds=251)
    assert schedules.words() == [("missed", "disabled", 2), ("skipped", "disabled", 2)]
    assert why.codes("s")[:2] == ["skipped_disabled", "waits_for_next"]
    schedules.set_clock(START + timedelta(seconds=305))
    schedules.call("pause_schedule", "s")
    await schedules.tick(seconds=306)
    schedules.call("resume_schedule", "s")
    await schedules.tick(seconds=307)
    assert schedules.words()[-1] == ("missed", "paused", 1)
    assert why.codes("s")[:1] == ["missed_paused"]


async def test_the_wait_of_the_oldest_is_told_without_workers(why: Asker, engine: Engine) -> None:
    engine.enqueue("work")
    engine.rows("UPDATE rota.open_runs SET enqueued_at = enqueued_at - interval '30 s'")
    assert why("work", "job")["runs_wait"].sentence == "1 run waits, the oldest for 30 s."


async def test_it_is_disabled(why: Asker, schedules: Schedules) -> None:
    schedules.add()
    schedules.call("disable_schedule", "s", actor="grace")
    assert why.codes("s") == ["schedule_disabled"]
    reason = why("s")["schedule_disabled"]
    assert reason.sentence == "Schedule s is disabled by grace."
    assert (reason.by_whom, reason.command) == ("grace", "rota schedules enable s")


async def test_it_is_paused(why: Asker, schedules: Schedules) -> None:
    schedules.add(tenant="acme")
    until = START.replace(hour=18)
    schedules.call("pause_schedule", "s", "stocktaking", until, "acme", "grace")
    reason = why("s", tenant="acme")["schedule_paused"]
    assert reason.sentence == "Schedule s is paused by grace: “stocktaking”."
    assert (reason.by_whom, reason.until) == ("grace", until)
    assert reason.command == "rota schedules resume --tenant acme s"
    assert "ends by itself" in reason.next_step


async def test_it_is_parked(why: Asker, schedules: Schedules) -> None:
    schedules.add(cron="99 * * * *")
    await schedules.tick(seconds=1)
    assert why.codes("s") == ["schedule_parked"]
    reason = why("s")["schedule_parked"]
    assert "99" in reason.sentence
    assert reason.until == schedules.row()["retry_at"]


async def test_it_is_finished(why: Asker, schedules: Schedules, engine: Engine) -> None:
    schedules.add(run_at=START)
    schedules.add("twice", max_runs=1)
    await schedules.tick(seconds=61)
    assert why("s")["schedule_finished"].sentence == "It is finished: its only time has passed."
    await schedules.tick(seconds=121)
    assert why("twice")["schedule_finished"].sentence == (
        "It is finished: it has run 1 time, its maximum."
    )


async def test_nobody_has_computed_its_time(why: Asker, schedules: Schedules) -> None:
    schedules.add(cron="0 3 * * *")
    assert why.codes("s") == ["schedule_pending"]


async def test_nobody_schedules(why: Asker, schedules: Schedules, engine: Engine) -> None:
    schedules.add()
    await schedules.tick(seconds=1)
    schedules.set_clock(START.replace(minute=10))
    assert "no_tick" in why("s")
    reason = why("s")["no_tick"]
    assert reason.sentence == (
        "It is due, but no worker has processed it: the only live worker processes no schedules."
    )
    assert reason.since == START.replace(minute=1)
    engine.rows("UPDATE rota.workers SET state = 'gone', ended_at = clock_timestamp()")
    assert why.codes("s") == ["no_tick", "no_worker"]


async def test_it_runs_at_starts(why: Asker, schedules: Schedules, engine: Engine) -> None:
    engine._insert("schedules", {"name": "s", "job": "work", "init": "release"})
    assert why.codes("s") == ["waits_for_start"]
    assert "once per release" in why("s")["waits_for_start"].sentence


async def test_what_holds_its_runs_is_said_of_it_too(
    why: Asker, schedules: Schedules, engine: Engine
) -> None:
    schedules.add(queue="mail")
    engine.one("SELECT rota.pause_queue('mail')")
    await schedules.tick(seconds=61)
    (run,) = schedules.runs()
    assert why.codes("s") == ["queue_paused", "run_open", "waits_for_next"]
    reason = why("s")["run_open"]
    assert reason.sentence == f"Its run {run['id']} has not ended: it is queued."
    assert reason.command == f"rota why {run['id']}"


# Schedules: what was decided about its last time.


async def test_the_run_before_it_had_not_ended(
    why: Asker, schedules: Schedules, engine: Engine
) -> None:
    schedules.add()
    schedules.add("patient", overlap="queue_all")
    await schedules.tick(seconds=61)
    await schedules.tick(seconds=121)
    reason = why("s")["skipped_overlap"]
    assert reason.sentence == "Its latest time was skipped: the previous run had not ended."
    assert reason.since == START.replace(minute=2)
    first, second = schedules.runs("patient")
    assert why(second["id"])["overlap"].sentence == (
        f"It waits for run {first['id']} of schedule patient, which has not ended."
    )


async def test_its_times_were_skipped(why: Asker, schedules: Schedules, engine: Engine) -> None:
    for name in ("paused", "disabled", "edited", "rescheduled"):
        schedules.add(name)
    await schedules.tick(seconds=1)
    schedules.call("pause_schedule", "paused")
    schedules.call("disable_schedule", "disabled")
    schedules.set_clock(START.replace(minute=5, second=30))
    schedules.call("resume_schedule", "paused")
    schedules.call("enable_schedule", "disabled")
    schedules.update("edited", interval_seconds=3600)
    schedules.call("reschedule", "rescheduled", START.replace(minute=9, second=30))
    await schedules.tick()
    assert why("paused")["skipped_paused"].sentence == (
        "Its latest time was skipped (and 4 before it): the schedule was paused."
    )
    assert "skipped_disabled" in why("disabled")
    assert "superseded_edited" in why("edited")
    await schedules.tick(seconds=571)
    assert "superseded_rescheduled" in why("rescheduled")


async def test_its_job_started_nothing(why: Asker, schedules: Schedules, engine: Engine) -> None:
    schedules.add()
    engine.one("SELECT rota.set_job_enabled('work', false, 'bad release', 'grace')")
    await schedules.tick(seconds=61)
    assert why.codes("s") == ["job_disabled", "skipped_job_disabled", "waits_for_next"]
    engine.one("SELECT rota.set_job_enabled('work', true)")
    engine.rows("UPDATE rota.jobs SET deleted_from_code_at = rota.now() WHERE name = 'work'")
    await schedules.tick(seconds=121)
    assert why.codes("s")[:2] == ["job_deleted", "skipped_job_deleted"]


async def test_its_calendar_was_closed(why: Asker, schedules: Schedules, engine: Engine) -> None:
    closed = {"holidays": ["2026-06-01"]}
    engine._insert("calendars", {"name": "holidays", "definition": closed})
    schedules.add(calendar="holidays")
    await schedules.tick(seconds=61)
    reason = why("s")["skipped_calendar"]
    assert reason.sentence == "Its latest time was skipped: calendar holidays was closed."
    assert reason.command == "rota calendars show holidays"


async def test_its_time_did_not_exist(why: Asker, schedules: Schedules, engine: Engine) -> None:
    schedules.set_clock(START.replace(month=3, day=28))
    engine.one("SELECT rota.ensure_partitions(%s, %s)", START.replace(month=3, day=28), START)
    schedules.add(cron="30 2 * * *", timezone="Europe/Vienna", gap="skip")
    await schedules.tick()
    schedules.set_clock(START.replace(month=3, day=30, hour=1))
    await schedules.tick()
    assert why("s")["skipped_dst_gap"].sentence.startswith("An earlier time was skipped: ")


async def test_what_it_requires_had_not_succeeded(
    why: Asker, schedules: Schedules, engine: Engine
) -> None:
    schedules.add("load")
    engine._insert("schedules", {
        "name": "s", "job": "work", "interval_seconds": 60, "anchor_at": START,
        "requires": '[{"name": "load"}]',
    })  # fmt: skip
    await schedules.tick(seconds=61)
    reason = why("s")["skipped_requirement"]
    assert "the schedule requires" in reason.sentence
    assert "load" in reason.sentence
    assert reason.command == "rota why load"


async def test_a_later_one_ran_instead(why: Asker, schedules: Schedules, engine: Engine) -> None:
    schedules.add("late")
    await schedules.tick(seconds=1)
    await schedules.tick(seconds=601)
    assert "skipped_coalesced" in why("late")
    claim = engine.claim_one(worker := engine.worker())
    engine.succeed(worker, claim)
    assert why.codes("late") == ["schedule_ran", "skipped_coalesced", "waits_for_next"]


async def test_decisions_that_are_rarely_the_last(
    why: Asker, schedules: Schedules, engine: Engine
) -> None:
    schedules.add()
    schedules.add("shadow", is_shadow=True)
    await schedules.tick(seconds=61)
    assert why.codes("shadow") == ["shadow", "skipped_shadow", "waits_for_next"]
    assert engine.one("SELECT count(*) FROM rota.ledger WHERE schedule = 's'") == 1
    for reason, code in (
        ("coalesced", "skipped_coalesced"), ("max_runs", "skipped_max_runs"),
        ("queue_full", "skipped_queue_full"), ("of_a_later_release", "not_run"),
    ):  # fmt: skip
        engine.rows(
            "UPDATE rota.ledger SET decision = 'skipped', reason = %s, run_id = NULL"
            " WHERE schedule = 's'", reason,
        )  # fmt: skip
        assert code in why("s")
    assert why("s")["not_run"].sentence == "Its latest time was skipped: of_a_later_release."


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"catch_up": "none"}, "missed_none"),
        ({"catch_up": "latest", "catch_up_window_seconds": 60}, "missed_window"),
    ],
)
async def test_it_was_missed(
    why: Asker, schedules: Schedules, policy: dict[str, Any], code: str
) -> None:
    schedules.add(cron="0 13 * * *", **policy)
    await schedules.tick(seconds=1)
    await schedules.tick(seconds=3 * 3600)
    assert why.codes("s") == [code, "waits_for_next"]


async def test_more_were_missed_than_are_caught_up(
    why: Asker, schedules: Schedules, engine: Engine
) -> None:
    schedules.add(catch_up="all", catch_up_limit=1)
    await schedules.tick(seconds=1)
    await schedules.tick(seconds=601)
    engine.rows("DELETE FROM rota.ledger WHERE decision <> 'missed'")
    assert "missed_cap" in why("s")


async def test_its_last_runs_failed(why: Asker, schedules: Schedules, engine: Engine) -> None:
    schedules.add(max_attempts=1, pause_after_failures=5)
    worker = engine.worker()
    await schedules.tick(seconds=61)
    engine.fail(worker, engine.claim_one(worker), "no such order")
    reasons = why("s")
    assert reasons["schedule_failing"].sentence == "Its last run failed: “no such order”."
    assert reasons["schedule_failing"].next_step == "It is paused after 5 failures in a row."
    assert "schedule_ran" not in reasons, "that is said already"
    await schedules.tick(seconds=121)
    engine.succeed(worker, engine.claim_one(worker))
    assert why.codes("s") == ["schedule_ran", "waits_for_next"]


# Jobs.


def test_a_job_that_nothing_keeps(why: Asker, engine: Engine) -> None:
    worker = engine.worker()
    assert why.codes("work") == ["idle"]
    run = engine.enqueue()
    assert why.codes("work") == ["runs_wait"]
    reason = why("work")["runs_wait"]
    assert reason.sentence.startswith("1 run waits, the oldest for ")
    assert reason.command == "rota runs list --state queued --job work"
    claim = engine.claim_one(worker)
    assert why.codes("work") == ["at_work"]
    engine.succeed(worker, claim)
    assert why.codes("work") == ["idle", "last_end"]
    assert why("work")["last_end"].sentence == f"Its last run, {run}, succeeded."
    engine.enqueue(delay="1 hour")
    assert why.codes("work") == ["runs_for_later", "last_end"]


def test_a_job_that_fails(why: Asker, engine: Engine) -> None:
    worker = engine.worker()
    engine.enqueue()
    engine.requeue(worker, engine.claim_one(worker), 60, error="no such order")
    engine.rows(
        "INSERT INTO rota.rollup_minutes VALUES"
        " (date_trunc('minute', rota.now()), 'work', 'default', 'failed', 0, 3, 1, 1, 0)"
    )
    assert why("work")["job_failing"].sentence == (
        "3 of 3 attempts failed in the last five minutes: “no such order”."
    )


def test_a_job_whose_schedules_are_off(why: Asker, engine: Engine) -> None:
    engine.worker()
    for name in ("a", "b"):
        engine._insert("schedules", {"name": name, "job": "work", "cron": "0 3 * * *"})
    engine.one("SELECT rota.pause_schedule('b')")
    reason = why("work")["schedules_off"]
    assert reason.sentence == "1 of 2 schedules is disabled, paused or parked: b."
    assert reason.command == "rota why --kind schedule b"


def test_a_job_that_no_event_has_started(why: Asker, engine: Engine) -> None:
    engine.worker()
    engine.one(
        "UPDATE rota.jobs SET events = '{order.*}', event_filters = %s::jsonb WHERE name = 'work'"
        " RETURNING 1",
        '{"order.*": {"total": {">": 5}}}',
    )
    assert why("work")["no_event"].sentence == (
        "None of the last 500 events matched its bindings: order.*."
    )
    engine.rows("""SELECT rota.emit('order.paid', '{"total": 5}')""")
    reason = why("work")["event_filtered"]
    assert reason.sentence == "Event 1, the latest that it is bound to, did not match its filter."
    assert reason.command == "rota events show 1"
    engine.rows("""SELECT rota.emit('order.paid', '{"total": 6}')""")
    assert not {"no_event", "event_filtered"} & set(why.codes("work"))


def test_events_that_are_throttled_and_debounced(why: Asker, engine: Engine) -> None:
    engine.worker()
    rule = (
        "UPDATE rota.jobs SET events = '{order.*}', event_delivery = %s::jsonb"
        " WHERE name = 'work' RETURNING 1"
    )
    engine.one(rule, '{"throttle_seconds": 60}')
    engine.rows("SELECT rota.emit('order.paid')")
    assert "event_throttled" not in why.codes("work")
    engine.rows("SELECT rota.emit('order.paid')")
    reason = why("work")["event_throttled"]
    assert reason.sentence == (
        "Event 2, the latest that it is bound to, was throttled: run 1 covers its period."
    )
    assert reason.command == "rota events show 2"
    engine.one(rule, '{"debounce_seconds": 60}')
    engine.conn.execute("DELETE FROM rota.keys")
    for _ in range(3):
        engine.rows("SELECT rota.emit('order.paid')")
    (run,) = engine.rows("SELECT id FROM rota.open_runs WHERE state = 'scheduled'")
    reason = why(str(run["id"]))["debounced"]
    assert reason.sentence == (
        "It waits for a quiet period: it has the latest of 3 events,"
        " and each new event postpones it."
    )
    assert reason.command == "rota events list --job work"
    assert reason.until is not None


def test_a_job_that_is_held_in_every_way(why: Asker, engine: Engine) -> None:
    engine.worker("other", queues=["reports"])
    engine.one("SELECT rota.set_job_enabled('work', false)")
    engine.one("SELECT rota.pause_queue('default')")
    assert why.codes("work") == [
        "job_disabled", "queue_paused", "queue_unserved", "job_unknown", "idle",
    ]  # fmt: skip


# Queues.


def test_a_queue_with_runs_that_wait(why: Asker, engine: Engine) -> None:
    for job in ("off", "gone"):
        engine.job(job)
    engine.worker()
    engine.enqueue()
    engine.enqueue("off")
    engine.enqueue("gone")
    engine.one("SELECT rota.set_job_enabled('off', false)")
    assert why.codes("default") == ["runs_wait", "jobs_disabled", "jobs_unknown"]
    reasons = why("default")
    assert reasons["runs_wait"].sentence.startswith("3 runs wait")
    assert reasons["jobs_disabled"].sentence == "1 run belongs to disabled jobs: off."
    assert reasons["jobs_unknown"].sentence == (
        "2 runs belong to jobs that no live worker knows: gone, off."
    )
    engine.park()
    assert why("default")["runs_held"].sentence.startswith("2 of them are held: ")


def test_a_queue_that_is_paused(why: Asker, engine: Engine) -> None:
    engine.one("SELECT rota.pause_queue('mail', 'x', 'grace')")
    assert why.codes("mail") == ["queue_paused", "no_worker", "idle"]


# Which of them is meant.


def test_a_name_is_a_schedule_then_a_job_then_a_queue(app: rota.App, engine: Engine) -> None:
    engine.job("mail", queue="mail")
    engine._insert("schedules", {"name": "mail", "job": "mail", "cron": "0 3 * * *"})
    answer = app.why.sync("mail")
    assert (answer.kind, answer.also) == ("schedule", ["job", "queue"])
    assert app.why.sync("mail", kind="queue").kind == "queue"
    engine.job("7")
    assert app.why.sync("7", kind="job").also == ["run"]
    with pytest.raises(rota.RunNotFound, match="there is no run 7"):
        app.why.sync("7")


def test_what_is_not_there(app: rota.App, engine: Engine) -> None:
    with pytest.raises(rota.QueueNotFound, match='no schedule, job or queue is named "x"'):
        app.why.sync("x")
    with pytest.raises(rota.QueueNotFound, match='there is no queue "x"'):
        app.why.sync("x", kind="queue")
    with pytest.raises(rota.UnknownJob):
        app.why.sync("x", kind="job")
    with pytest.raises(rota.ScheduleNotFound):
        app.why.sync("x", kind="schedule")
    with pytest.raises(rota.RunNotFound):
        app.why.sync("x", kind="run")
    with pytest.raises(rota.RunNotFound):
        app.why.sync("9" * 18)
    with pytest.raises(rota.FilterError, match="kind 'flow' is not a choice"):
        app.why.sync("x", kind="flow")  # type: ignore[arg-type]


async def test_both_faces(app: rota.App, engine: Engine) -> None:
    run = engine.enqueue()
    answer = await app.why(run)
    assert (answer.kind, answer.name, answer.tenant) == ("run", str(run), "")
    assert answer.reasons == app.why.sync(run).reasons
