"""`app.attention`: every kind of thing that needs somebody, provoked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.metrics.rollups import Rollups
from rota.model.attention import Attention, AttentionItem
from tests.printed import run_printed
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]


@pytest.fixture
def engine(conn: Conn) -> Engine:
    return Engine(conn)


@pytest.fixture
def schedules(engine: Engine, app: rota.App) -> Schedules:
    made = Schedules(engine, app.database)
    engine.job()
    engine.worker()
    return made


async def ended(app: rota.App, job: str, *, good: int = 0, bad: int = 0) -> None:
    rollups = Rollups(app.database)
    rollups.worker = 7
    for _ in range(good):
        rollups.count(job, "default", "succeeded", 2000.0)
    for _ in range(bad):
        rollups.count(job, "default", "failed", 5.0)
    await rollups.run_once()


async def only(app: rota.App, kind: str) -> AttentionItem:
    found = await app.attention.get()
    (need,) = [one for one in found.needs if one.kind == kind]
    assert [one.count for one in found.kinds if one.kind == kind] == [1]
    listed = [one.name for one in await app.schedules.list(attention=True)]
    assert listed == sorted({one.name for one in found.needs if one.subject == "schedule"})
    assert need.command is not None
    assert await asyncio.to_thread(run_printed, str(app.config.database_url), need.command) is None
    return need


def kinds(found: Attention) -> set[str]:
    return {one.kind for one in found.kinds}


async def test_nothing(app: rota.App) -> None:
    found = await app.attention.get()
    assert (found.total, found.needs, found.kinds) == (0, [], [])


async def test_a_job_that_fails_beside_what_is_usual(app: rota.App, engine: Engine) -> None:
    engine.job("call")
    day = timedelta(days=1)
    for days in (3, 2, 1):
        engine.one("SELECT rota.set_clock(%s)", datetime.now(UTC) - days * day)
        await ended(app, "call", good=98, bad=2)
        engine.one("SELECT rota.fold_rollups(100)")
    engine.one("SELECT rota.set_clock(clock_timestamp())")
    await ended(app, "call", good=97, bad=3)
    assert "failing_job" not in kinds(await app.attention.get()), "that is usual"

    worker = engine.worker("call")
    engine.enqueue("call")
    engine.fail(worker, engine.claim_one(worker, jobs=["call"]), "503 from the supplier")
    engine.one("SELECT rota.fold_errors()")
    await ended(app, "call", good=10, bad=30)
    need = await only(app, "failing_job")

    # A day that is just over has other hours: two or three of the days before may count.
    assert need.says in (
        "is failing: 33 of 140 attempts in the last hour, usually 2",
        "is failing: 33 of 140 attempts in the last hour, usually 1",
    )
    assert (need.name, need.state, need.reason) == (
        "call",
        "failed",
        "ValueError: 503 from the supplier",
    )
    assert need.since is not None
    # The run waits for its next attempt: it is in no list of failed ones.
    assert need.command == "rota errors list --job call"
    assert [one.error for one in await app.errors.list(job="call")] == ["503 from the supplier"]


async def test_a_job_of_which_all_fails_needs_no_history(app: rota.App, engine: Engine) -> None:
    engine.job("backup")
    await ended(app, "backup", bad=1)
    need = await only(app, "failing_job")
    assert need.says == "is failing: 1 of 1 attempts in the last hour"


async def test_failures_that_somebody_has_seen_to(app: rota.App, engine: Engine) -> None:
    engine.job("backup")
    worker = engine.worker("backup")

    async def fail() -> None:
        engine.enqueue("backup")
        engine.fail(worker, engine.claim_one(worker, jobs=["backup"]), "the disk is full")
        await ended(app, "backup", bad=1)
        engine.one("SELECT rota.fold_errors()")

    await fail()
    assert (await only(app, "failing_job")).reason == "ValueError: the disk is full"
    (group,) = await app.errors.list()
    await app.errors.by("grace").handle(group.id, "a larger disk is ordered")
    assert "failing_job" not in kinds(await app.attention.get())
    engine.advance(1200)
    await fail()
    assert (await only(app, "failing_job")).figures["failed"] == 1, "only what came after"


async def test_a_paused_queue_with_what_waits(app: rota.App, engine: Engine) -> None:
    engine.job("send", queue="mail")
    engine.worker("send")
    engine.enqueue("send")
    engine.enqueue("send")
    await app.queues.by("grace").pause("mail", "provider is down")
    need = await only(app, "paused_queue")

    assert need.sentence.startswith("Queue mail is paused: 2 runs wait, the oldest for ")
    assert need.reason == "by grace: “provider is down”, no end set"
    assert (need.state, need.command) == ("paused", "rota queues resume mail")
    assert need.figures["waiting"] == 2
    await app.queues.resume("mail")
    assert "paused_queue" not in kinds(await app.attention.get())


async def test_a_paused_tenant_with_what_waits(app: rota.App, engine: Engine) -> None:
    engine.job("send")
    await app.tenants.pause("idle")
    assert "paused_tenant" not in kinds(await app.attention.get()), "nothing of it waits"
    engine.enqueue("send", tenant="acme")
    engine.enqueue("send", tenant="acme")
    await app.tenants.by("grace").pause("acme", "unpaid")
    need = await only(app, "paused_tenant")

    assert need.sentence == "Tenant acme is paused: 2 runs wait"
    assert need.reason == "by grace: “unpaid”, no end set"
    assert (need.state, need.command) == ("paused", "rota tenants resume acme")
    assert need.since is not None
    assert need.figures["waiting"] == 2
    await app.tenants.pause("acme", until=timedelta(hours=1))
    assert ", until " in ((await only(app, "paused_tenant")).reason or "")
    engine.advance(3601)
    assert "paused_tenant" not in kinds(await app.attention.get()), "its pause is over"


async def test_the_kept_count_of_a_paused_tenant(app: rota.App, engine: Engine) -> None:
    engine.job("send")
    engine.enqueue("send", tenant="acme")
    await app.tenants.pause("acme")
    engine.conn.execute(
        "INSERT INTO rota.tenant_depths (tenant, waiting, queued) VALUES ('acme', 1000000, 1000000)"
        " ON CONFLICT (tenant) DO UPDATE SET waiting = 1000000"
    )
    assert (await only(app, "paused_tenant")).says == "is paused: 1,000,000 runs wait"


async def test_a_schedule_that_is_late(app: rota.App, schedules: Schedules) -> None:
    schedules.add("report", cron="0 13 * * *")
    await schedules.tick()
    schedules.set_clock(START + timedelta(hours=1, minutes=5))
    need = await only(app, "late_schedule")

    assert need.sentence == "Schedule report is late"
    assert need.since == START + timedelta(hours=1)
    assert need.reason == "1 worker live, none has processed it"
    await schedules.tick()
    assert "late_schedule" not in kinds(await app.attention.get())


async def test_a_schedule_that_was_missed_until_it_is_backfilled(
    app: rota.App, schedules: Schedules
) -> None:
    schedules.add("report", cron="0 * * * *", catch_up="none")
    await schedules.tick()
    schedules.set_clock(START + timedelta(hours=3, minutes=30))
    await schedules.tick()
    need = await only(app, "missed_schedule")

    assert need.sentence == "Schedule report was missed 3 times"
    assert need.since == START + timedelta(hours=1)
    assert need.reason == "no worker was running, and its policy is not to catch up"
    since = START + timedelta(minutes=59)
    await app.schedules.backfill("report", since, START + timedelta(hours=3))
    assert "missed_schedule" not in kinds(await app.attention.get())


async def test_a_schedule_that_cannot_be_followed(app: rota.App, schedules: Schedules) -> None:
    schedules.add("report", cron="0 * * * *")
    schedules.set_state("report", parked_at="now", error="the zone is gone")
    need = await only(app, "parked_schedule")

    assert need.sentence == "Schedule report is parked: it cannot be processed"
    assert (need.reason, need.state) == ("the zone is gone", "parked")


async def test_a_schedule_that_failed_until_it_was_paused(
    app: rota.App, schedules: Schedules
) -> None:
    schedules.add("report", pause_after_failures=1)
    await schedules.tick()
    schedules.set_clock(START + timedelta(seconds=61))
    await schedules.tick()
    engine = schedules.engine
    worker = engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    need = await only(app, "stopped_schedule")

    assert need.sentence == "Schedule report has been paused by Rota"
    assert need.reason == "1 run failed"
    assert need.command == "rota schedules resume report"


async def test_a_schedule_whose_job_is_gone_from_the_code(
    app: rota.App, schedules: Schedules
) -> None:
    schedules.add("report")
    schedules.engine.rows("UPDATE rota.jobs SET deleted_from_code_at = now() WHERE name = 'work'")
    need = await only(app, "orphaned_schedule")
    assert need.sentence == "Schedule report skips its times: no code declares job work"
    assert need.command == "rota schedules show report"
    assert (await app.schedules.get("report")).state == "orphaned"


async def test_a_pause_by_rota_is_audited_as_one(app: rota.App, schedules: Schedules) -> None:
    schedules.add("report", pause_after_failures=1)
    await schedules.tick()
    await schedules.tick(seconds=61)
    engine = schedules.engine
    worker = engine.worker()
    engine.fail(worker, engine.claim_one(worker))
    assert schedules.row("report")["paused_by"] == "rota"
    entry = next(iter((await app.audit.page(object_type="schedule", object_id="report")).items))
    assert (entry.action, entry.actor) == ("schedule.paused", "rota")


async def test_a_run_that_takes_longer_than_usual(app: rota.App, engine: Engine) -> None:
    engine.job()
    worker = engine.worker()
    run = engine.enqueue()
    await ended(app, "work", good=50)
    engine.advance(120)
    engine.one("SELECT rota.fold_rollups(100)")
    engine.claim_one(worker)
    assert "slow_run" not in kinds(await app.attention.get())
    engine.advance(600)
    need = await only(app, "slow_run")

    assert need.sentence.startswith(f"Run {run} of work has been running for 10 min")
    assert need.reason is not None
    assert need.reason.startswith("usually ")
    assert need.reason.endswith("attempt 1 of 1 on w") or "attempt 1 of" in need.reason
    assert need.command == f"rota runs show {run}"


@pytest.mark.parametrize(
    ("change", "says", "state"),
    [
        ("lease_expires_at = clock_timestamp() - interval '1 s'", "is silent", "lost"),
        ("is_stuck = true", "is stuck", "warn"),
        ("trouble = 'feeder: it cannot claim'", "is failing", "warn"),
    ],
)
async def test_a_worker_in_trouble(
    app: rota.App, engine: Engine, change: str, says: str, state: str
) -> None:
    worker = engine.worker()
    engine.rows(f"UPDATE rota.workers SET {change}")
    need = await only(app, "worker")
    assert (need.name, need.says, need.state) == ("w", says, state)
    assert need.command == f"rota workers show {worker}"


async def test_a_stuck_worker_says_by_what_and_since_when(app: rota.App, engine: Engine) -> None:
    """Its heartbeats go on, from a thread; its event loop has done nothing since it was blocked."""
    engine.job()
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim_one(worker)
    engine.rows("UPDATE rota.workers SET started_at = started_at - interval '1 hour'")
    beat = f"SELECT rota.beat({worker}, stuck => true, claimed_seconds => %s)"
    engine.conn.execute(beat, [60.0])
    first = await only(app, "worker")
    assert first.reason is not None
    assert f"most likely by run {run} of work" in first.reason
    engine.rows("UPDATE rota.workers SET heartbeat_at = heartbeat_at + interval '40 seconds'")
    second = await only(app, "worker")
    assert first.since == second.since
    assert first.since is not None
    assert first.since < engine.one("SELECT heartbeat_at FROM rota.workers") - timedelta(seconds=55)


async def test_a_worker_that_was_lost(app: rota.App, engine: Engine) -> None:
    engine.lose(engine.worker())
    need = await only(app, "worker")
    assert need.sentence == "Worker w was lost"
    engine.rows("UPDATE rota.workers SET ended_at = ended_at - interval '61 minutes'")
    assert (await app.attention.get()).total == 0


async def test_work_that_no_worker_knows(app: rota.App, engine: Engine) -> None:
    engine.job("new")
    engine.worker("old")
    engine.enqueue("new")
    assert (await app.attention.get()).total == 0, "it came a moment ago"
    assert engine.park() == 1
    need = await only(app, "unserved_work")

    assert need.sentence == "Job new has no worker: 1 run waits in queue default"
    assert need.reason == "1 worker live, none knows this job"
    assert need.since is not None


async def test_work_of_a_queue_that_nobody_serves(app: rota.App, engine: Engine) -> None:
    engine.job(queue="mail")
    engine.worker(queues=["other"])
    engine.enqueue()
    engine.rows("UPDATE rota.open_runs SET enqueued_at = enqueued_at - interval '1 minute'")
    need = await only(app, "unserved_work")
    assert need.reason == "1 worker live, none serves queue mail for this job"


async def test_without_any_worker_all_that_waits_is_one_thing(
    app: rota.App, engine: Engine
) -> None:
    for job in ("a", "b"):
        engine.job(job)
        engine.enqueue(job)
    engine.rows("UPDATE rota.open_runs SET enqueued_at = enqueued_at - interval '1 minute'")
    need = await only(app, "unserved_work")
    assert (need.sentence, need.reason) == ("No worker is live: 2 runs wait", "of 2 jobs: a, b")


async def test_of_each_kind_the_first_few_and_all_are_counted(
    app: rota.App, schedules: Schedules
) -> None:
    for number in range(8):
        schedules.add(f"s{number}", cron="0 * * * *")
    schedules.engine.rows(
        "UPDATE rota.schedule_state SET parked_at = rota.now(), error = 'no' WHERE schedule_id IN"
        " (SELECT id FROM rota.schedules WHERE NOT is_system)"
    )
    found = await app.attention.get(limit=3)

    assert (found.total, len(found.needs)) == (8, 3)
    assert [(one.kind, one.count) for one in found.kinds] == [("parked_schedule", 8)]
    assert app.attention.sync.get(limit=3) is not None


async def test_names_are_quoted_in_commands(app: rota.App, engine: Engine) -> None:
    engine.job("send", queue="a b; rm -rf /")
    await app.queues.pause("a b; rm -rf /", "x")
    assert (await only(app, "paused_queue")).command == "rota queues resume 'a b; rm -rf /'"


async def test_limits_that_stand_still_or_were_mended(app: rota.App, engine: Engine) -> None:
    engine.job("work")
    engine.one("""SELECT rota.set_limit('few', '{"cap": 1}')""")
    engine.enqueue()
    engine.one("SELECT admitted FROM rota.admit_runs()")
    engine.conn.execute("DELETE FROM rota.open_runs")
    engine.one("SELECT rota.mend_limits()")
    need = await only(app, "limit")
    assert need.sentence == "Limit few counted 1 in use instead of 0, and was corrected"
    engine.conn.execute("DELETE FROM rota.audit WHERE action = 'limit.mended'")
    engine.one("""SELECT rota.remove_limit('few')""")
    engine.one("""SELECT rota.set_limit('line', '{"kind": "sequence", "next_after": "success"}')""")
    run, worker = engine.enqueue(), engine.worker()
    engine.one("SELECT admitted FROM rota.admit_runs()")
    engine.fail(worker, engine.claim_one(worker))
    engine.one("SELECT admitted FROM rota.admit_runs()")
    need = await only(app, "limit")
    assert need.reason == f"run {run} failed, and the next run requires its success"
    assert need.command == "rota limits unblock line"
