"""What is kept and what goes. The history is made by SQL, as old as it has to be."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.postgres.plans import Execute
from rota.postgres.retention import parts as retention_parts
from rota.postgres.retention.retention import Pass
from rota.postgres.steps import Pause
from rota.testing import run_due
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]

ENDED = """
INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt,
    attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant,
    payload, end_reason, keep_class)
SELECT nextval('rota.run_ids'), t.at, t.at, t.at, t.at, 1, %(attempt)s, 1, 3, 5, false, %(state)s,
    %(state)s, 'default', %(job)s, %(tenant)s, '{}', 'as told',
    rota.keep_class_of(%(job)s, %(state)s)
FROM (SELECT rota.now() - %(age)s::interval - n * interval '1 second' AS at
      FROM generate_series(1, %(count)s) n) t
RETURNING id, finished_at
"""


class Past:
    """Ended runs of some age, with an earlier attempt and a line each."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn

    def add(
        self,
        days: float,
        *,
        job: str = "work",
        state: str = "succeeded",
        count: int = 1,
        tenant: str = "",
    ) -> list[int]:
        age = timedelta(days=days)
        self.conn.execute(
            "SELECT rota.ensure_partitions(rota.now() - %s - interval '2 days', rota.now())", [age]
        )
        params = {"age": age, "job": job, "state": state, "count": count, "attempt": 2}
        params["tenant"] = tenant
        made = self.conn.execute(ENDED, params).fetchall()
        for run_id, at in made:
            self.conn.execute(
                "INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at,"
                " finished_at, is_spent, job, tenant) VALUES (%s, 1, 'failed', 1, %s, %s, true,"
                " %s, '')",
                [run_id, at, at, job],
            )
            self.conn.execute(
                "INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message)"
                " VALUES (%s, %s, 1, 1, 1, 'info', %s, 'hello')",
                [at, run_id, job],
            )
        return [run_id for run_id, _ in made]

    def left(self) -> set[int]:
        return {row[0] for row in self.conn.execute("SELECT id FROM rota.ended_runs").fetchall()}

    def lines(self) -> set[int]:
        return {row[0] for row in self.conn.execute("SELECT run_id FROM rota.logs").fetchall()}

    def orphans(self) -> list[Any]:
        return self.conn.execute(
            "SELECT run_id FROM (SELECT run_id FROM rota.past_attempts UNION ALL"
            " SELECT run_id FROM rota.logs) t"
            " WHERE NOT EXISTS (SELECT FROM rota.runs r WHERE r.id = t.run_id)"
        ).fetchall()


@pytest.fixture
def past(conn: Connection, app: rota.App) -> Past:
    Engine(conn).job("work")
    return Past(conn)


def policy(conn: Connection, job: str = "work", **retention: int) -> None:
    conn.execute(
        "UPDATE rota.jobs SET retention = %s WHERE name = %s",
        [psycopg.types.json.Jsonb(retention), job],
    )


async def test_what_is_older_than_its_class_goes_with_its_partition(
    app: rota.App, past: Past
) -> None:
    old, young = past.add(60, count=3), past.add(3, count=2)
    told = await app.retention.plan()
    assert past.left() == {*old, *young}
    assert sum(one.rows for one in told.items if one.table.startswith("ended")) == 3
    done = await app.retention.run()
    assert done.rows == told.rows
    assert past.left() == set(young)
    assert past.lines() == set(young)
    assert past.orphans() == []
    assert {one.partition for one in done.items} >= {one.partition for one in told.items}
    assert all(one.action == "drop" for one in done.items if one.table.startswith("ended"))
    again = await app.retention.run()
    assert again.items == []


async def test_lines_go_before_their_runs(app: rota.App, past: Past) -> None:
    runs = past.add(15)
    await app.retention.run()
    assert past.left() == set(runs)
    assert past.lines() == set()


async def test_failures_may_be_kept_longer(app: rota.App, past: Past, conn: Connection) -> None:
    policy(conn, days=2, failed_days=90)
    bad, good = past.add(60, state="failed"), past.add(4)
    rows = conn.execute("SELECT id, keep_class FROM rota.ended_runs ORDER BY id").fetchall()
    assert rows == [(bad[0], "long"), (good[0], "short")]
    fresh = past.add(1)
    told = await app.retention.plan()
    assert [(one.job, one.rows) for one in told.items if one.action == "delete"] == [("work", 1)]
    await app.retention.run()
    assert past.left() == {*bad, *fresh}
    assert past.orphans() == []


async def test_a_count_keeps_the_newest_of_each_outcome(
    app: rota.App, past: Past, conn: Connection
) -> None:
    policy(conn, count=2, failed_count=1)
    good, bad = past.add(1, count=5), past.add(1, state="failed", count=3)
    told = await app.retention.plan()
    assert {(one.outcome, one.rows) for one in told.items if one.job} == {
        ("failed", 2),
        ("succeeded or cancelled", 3),
    }
    await app.retention.run()
    # Made in the order of their age: the first is the youngest.
    assert past.left() == {*good[:2], *bad[:1]}
    assert past.orphans() == []


async def test_ties_do_not_make_a_count_delete_more(
    app: rota.App, past: Past, conn: Connection
) -> None:
    policy(conn, count=3)
    past.add(1, count=6)
    conn.execute("UPDATE rota.ended_runs SET finished_at = rota.now() - interval '1 day'")
    await app.retention.run()
    assert len(past.left()) == 3


async def test_a_new_policy_reaches_what_ended_under_the_old_one(
    app: rota.App, past: Past, conn: Connection
) -> None:
    old, other = past.add(20), past.add(20, job="other")
    policy(conn, days=7)
    await app.retention.run()
    assert past.left() == set(other)
    assert not past.lines() & set(old)


async def test_portions_go_on_until_nothing_is_left(
    app: rota.App, past: Past, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.postgres.retention.retention.BATCH", 2)
    monkeypatch.setattr("rota.postgres.retention.log_lines.BATCH", 2)
    monkeypatch.setattr(retention_parts, "BATCH", 2)
    policy(conn, days=2, log_days=1)
    past.add(3, count=5)
    kept = past.add(1.5, count=5)
    old = past.add(60, job="other", count=5)
    seen: list[int] = []
    await app.retention.run(on_progress=seen.append)
    assert past.left() == set(kept)
    assert past.lines() == set()
    assert not past.left() & set(old)
    assert sum(seen) >= 15


async def test_single_jobs_keep_their_lines_longer(
    app: rota.App, past: Past, conn: Connection
) -> None:
    Engine(conn).job("talk")
    policy(conn, "talk", log_days=20)
    kept, gone = past.add(10, job="talk"), past.add(10)
    older = past.add(25, job="talk")
    await app.retention.run()
    assert past.lines() == set(kept)
    assert past.left() == {*kept, *gone, *older}


async def test_lines_of_failed_runs_and_counts_of_lines(
    app: rota.App, past: Past, conn: Connection
) -> None:
    policy(conn, log_days=2, failed_log_days=6)
    bad, good = past.add(4, state="failed"), past.add(4)
    policy_job = Engine(conn).job("talk")
    policy(conn, policy_job, log_count=2)
    many = past.add(1, job="talk", count=4)
    told = await app.retention.plan()
    assert {(one.job, one.outcome, one.rows) for one in told.items if one.job} == {
        ("work", "not failed", 1),
        ("talk", None, 2),
    }
    await app.retention.run()
    assert past.lines() == {*bad, *many[:2]}
    assert {*good, *bad, *many} <= past.left()


async def test_occurrences_and_counts_have_their_own_days(
    app: rota.App, past: Past, conn: Connection
) -> None:
    conn.execute("SELECT rota.ensure_ledger(ARRAY[rota.now() - interval '120 days'])")
    conn.execute(
        "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason,"
        " tenant, schedule, claimed_at, decided_at) SELECT 1, t, t, 1, 'skipped', 'paused', '',"
        " 's', t, t FROM unnest(ARRAY[rota.now() - interval '120 days', rota.now()]) t"
    )
    conn.execute(
        "INSERT INTO rota.rollup_minutes (minute, job, queue, outcome, worker, attempts,"
        " duration_ms, longest_ms, histogram) SELECT rota.now() - d, 'w', 'q', 'succeeded', 0, 1,"
        " 1, 1, 0 FROM unnest(ARRAY[interval '401 days', '1 day']) d"
    )
    await app.retention.run()
    assert conn.execute("SELECT count(*) FROM rota.ledger").fetchone() == (1,)
    assert conn.execute("SELECT count(*) FROM rota.rollup_minutes").fetchone() == (1,)


async def test_the_audit_is_for_ever_unless_told(
    make_app: MakeApp, past: Past, conn: Connection
) -> None:
    conn.execute("TRUNCATE rota.audit")
    conn.execute("SELECT rota.write_audit('a', 'x', 'run', '1')")
    conn.execute("UPDATE rota.audit SET at = at - interval '1000 days'")
    await make_app().retention.run()
    assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == (1,)
    await make_app(retention={"audit_days": 100}).retention.run()
    assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == (0,)


async def test_failed_runs_of_all_jobs_by_configuration(
    make_app: MakeApp, past: Past, conn: Connection
) -> None:
    app = make_app(retention={"failed_run_days": 90})
    await app.retention.run()
    bad, good = past.add(60, state="failed"), past.add(60)
    assert conn.execute(
        "SELECT keep_class FROM rota.ended_runs WHERE id = %s", [bad[0]]
    ).fetchone() == ("long",)
    await app.retention.run()
    assert past.left() == set(bad)
    assert good[0] not in past.left()


def test_portions_are_followed_by_rests_unless_in_a_hurry(app: rota.App) -> None:
    (portion, rest), (hurried,) = (_portions(app, hurry=hurry) for hurry in (False, True))
    assert isinstance(portion, Execute)
    assert isinstance(rest, Pause)
    assert isinstance(hurried, Execute)


def _portions(app: rota.App, *, hurry: bool) -> list[object]:
    """What a pass asks for by one portion, which finds nothing."""
    now = datetime(2026, 3, 8, tzinfo=UTC)
    work = Pass(app.config.retention, now, False, {}, lambda count: None, hurry)
    return list(work.portion(Execute("retention/prune_rows", {})))


async def test_one_pass_at_a_time(app: rota.App, past: Past, conn: Connection) -> None:
    with conn.transaction():
        conn.execute("LOCK TABLE rota.pruning_runs IN EXCLUSIVE MODE")
        with pytest.raises(rota.WrongState, match="already running"):
            await app.retention.run()
    await app.retention.run()


async def test_no_reader_stops_a_finish_and_what_waits_is_finished_by_the_next_pass(
    app: rota.App, past: Past, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the history is held in its transaction; workers finish during the pass."""
    monkeypatch.setattr(retention_parts, "PATIENCE_SECONDS", 1)
    old = past.add(60)
    reader = connect(autocommit=False)
    reader.execute("SELECT count(*) FROM rota.ended_runs").fetchone()

    @app.job
    async def small() -> int:
        return 1

    held = await app.retention.run()
    notes = [one.note for one in held.items if one.table == "ended_runs_standard"]
    assert notes
    assert all("next pass" in (note or "") for note in notes)
    run = await app.runs.enqueue("small")
    await run_due(app)
    assert (await app.runs.get(run.id)).state == "succeeded"
    reader.rollback()
    done = await app.retention.run()
    assert all(one.note is None for one in done.items)
    assert not past.left() & set(old)
    assert past.orphans() == []
    assert past.conn.execute(
        "SELECT count(*) FROM rota.history_parts() WHERE state <> 'attached'"
    ).fetchone() == (0,)


async def test_a_crash_between_detach_and_drop_leaves_nothing_behind(
    app: rota.App, past: Past, conn: Connection
) -> None:
    past.add(60, count=2)
    (detach,) = conn.execute(
        "SELECT format('ALTER TABLE rota.%I DETACH PARTITION rota.%I CONCURRENTLY', parent,"
        " partition) FROM rota.history_parts()"
        " WHERE parent = 'ended_runs_standard' ORDER BY to_at LIMIT 1"
    ).fetchone() or ("",)
    conn.execute(detach)
    await app.retention.run()
    assert past.left() == set()
    assert past.orphans() == []
    assert conn.execute(
        "SELECT count(*) FROM rota.history_parts() WHERE state <> 'attached'"
    ).fetchone() == (0,)


async def test_runs_that_go_on_keep_their_attempts(
    app: rota.App, past: Past, conn: Connection
) -> None:
    (run,) = past.add(60, state="failed")
    await app.runs.retry(run)
    await app.retention.run()
    assert [one.attempt for one in (await app.runs.details(run)).attempts] == [1, 2]


async def test_a_dead_letter_can_be_retried_for_as_long_as_it_is_shown(
    app: rota.App, past: Past, conn: Connection
) -> None:
    """Passes have gone over a week in which no other run had more than one attempt."""
    runs = past.add(20, state="failed", count=3)
    conn.execute("DELETE FROM rota.past_attempts")
    await app.retention.run()
    assert past.left() == set(runs)
    by_name, by_sql, in_bulk = runs
    await app.runs.retry(by_name)
    conn.execute("SELECT rota.retry_run(%s)", [by_sql])
    told = conn.execute("SELECT * FROM rota.act_on_runs('retry', %s)", [[in_bulk]]).fetchall()
    assert [row[1] for row in told] == ["retried"]
    for run in runs:
        details = await app.runs.details(run)
        assert [one.attempt for one in details.attempts] == [2]


def test_sync_callers(app: rota.App, past: Past) -> None:
    past.add(60)
    assert app.retention.sync.plan().is_dry_run
    assert app.retention.sync.run().rows >= 0
    assert past.left() == set()


def test_policies_are_checked_by_the_database(past: Past, conn: Connection) -> None:
    for bad in ({"days": 0}, {"days": 1.5}, {"dais": 1}, {"failed_days": 9999}, {"count": "x"}):
        with pytest.raises(psycopg.Error, match="retention"):
            policy(conn, **bad)  # type: ignore[arg-type]


async def test_policies_are_declared_and_edited(app: rota.App, conn: Connection) -> None:
    @app.job(retention=rota.Retention(days=2, failed_days=90))
    async def kept() -> None: ...

    assert (await app.jobs.get("kept")).retention == {"days": 2, "failed_days": 90}
    rules = "SELECT state, keep_class FROM rota.keep_rules WHERE job = 'kept' ORDER BY state"
    assert conn.execute(rules).fetchall() == [
        ("cancelled", "short"),
        ("failed", "long"),
        ("succeeded", "short"),
    ]
    await app.jobs.update("kept", retention={"count": 7})
    assert (await app.jobs.get("kept")).retention == {"count": 7}
    assert conn.execute(rules).fetchall() == []
    assert [one.field for one in await app.jobs.plan()] == ["retention"]
    await app.jobs.update("kept", reset=["retention"])
    assert (await app.jobs.get("kept")).retention == {"days": 2, "failed_days": 90}
    with pytest.raises(rota.JobError, match="days"):
        await app.jobs.update("kept", retention={"days": 0})
    with pytest.raises(rota.JobError):
        app.job(name="bad", retention={"weeks": 2})(lambda: None)


async def test_every_way_to_end_picks_the_class(app: rota.App, conn: Connection) -> None:
    short = rota.Retention(days=1)

    @app.job(retention=short)
    async def good() -> None: ...

    @app.job(retention=short, max_attempts=1)
    async def bad() -> None:
        raise ValueError

    runs = [(await app.runs.enqueue(name)).id for name in ("good", "bad")]
    runs.append((await app.runs.enqueue("good", delay=60)).id)
    await app.runs.cancel(runs[-1])
    await run_due(app)
    rows = conn.execute("SELECT id, keep_class FROM rota.ended_runs ORDER BY id").fetchall()
    assert rows == [(it, "short") for it in sorted(runs)]
    await app.runs.retry(runs[1])
    assert (await app.runs.get(runs[1])).state == "queued"


async def test_the_nightly_jobs_run_in_any_worker(
    app: rota.App, past: Past, conn: Connection
) -> None:
    old = past.add(60)
    async with app.worker():
        names = ("rota.prune_logs", "rota.prune_runs")
        runs = [(await app.runs.enqueue(name)).id for name in names]
        ended = [await app.runs.wait(it, 30) for it in runs]
    assert [run.state for run in ended] == ["succeeded", "succeeded"]
    assert ended[1].result["dropped"]
    assert not past.left() & set(old)
    assert set(names) <= {one.name for one in await app.schedules.list(system=True)}
    assert not set(names) & {one.name for one in await app.schedules.list()}


async def test_a_worker_of_other_queues_runs_them_and_gives_up_no_slot_for_it(
    make_app: MakeApp, past: Past, connect: Any
) -> None:
    app = make_app(**{"worker.queues": ["mail"], "worker.concurrency": 1})

    @app.job(queue="mail")
    async def small() -> None: ...

    past.add(60)
    reader = connect(autocommit=False)
    reader.execute("SELECT count(*) FROM rota.ended_runs").fetchone()
    async with app.worker():
        pruning = await app.runs.enqueue("rota.prune_runs")
        while (await app.runs.get(pruning.id)).state != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        # The pass waits for the reader, in the one slot that there is.
        for _ in range(3):
            assert (await app.runs.wait((await small.enqueue()).id, 20)).state == "succeeded"
        assert (await app.runs.get(pruning.id)).state == "running"
        (worker,) = await app.workers.list()
        assert worker.queues == ["mail"]
        assert "rota.system" not in {one.name for one in await app.queues.list()}
        assert (await app.queues.get("rota.system")).queue.workers == 1
        reader.rollback()
        assert (await app.runs.wait(pruning.id, 30)).state == "succeeded"
    assert (await app.runs.get(pruning.id)).queue == "rota.system"


async def test_runs_of_rotas_own_jobs_are_shown_to_those_who_ask(app: rota.App, past: Past) -> None:
    own = (await app.runs.enqueue("rota.prune_logs")).id
    usual = (await app.runs.enqueue("work")).id

    async def listed(**filters: Any) -> list[int]:
        return [run.id for run in await app.runs.list(**filters)]

    assert await listed() == [usual]
    assert await listed(system=True) == [usual, own]
    assert await listed(job="rota.prune_logs") == [own]
    assert await listed(queue="rota.system") == [own]
    told = await app.bulk.preview("cancel", states=["queued"])
    assert [(one.job, one.runs) for one in told.groups] == [("work", 1)]
    with pytest.raises(rota.FilterError):
        await app.bulk.start("cancel", system=True)


# What tenants say.


async def test_a_tenant_keeps_its_runs_for_a_shorter_time(app: rota.App, past: Past) -> None:
    await app.tenants.set("acme", retention_days=3, failed_retention_days=6)
    young = past.add(2, tenant="acme") + past.add(5, tenant="acme", state="failed")
    others = past.add(5) + past.add(5, tenant="blue")
    gone = past.add(4, tenant="acme", count=1500) + past.add(7, tenant="acme", state="failed")
    told = await app.retention.plan()
    assert [(it.tenant, it.outcome, it.rows) for it in told.items if it.tenant] == [
        ("acme", "failed", 1), ("acme", "succeeded or cancelled", 1500),
    ]  # fmt: skip
    assert past.left() == {*young, *others, *gone}
    done = await app.retention.run(hurry=True)
    assert past.left() == {*young, *others}
    assert past.orphans() == []
    assert [it.rows for it in done.items if it.tenant] == [1, 1500]
    assert (await app.retention.run()).items == []


async def test_a_tenant_cannot_keep_longer_than_its_job(app: rota.App, past: Past) -> None:
    await app.tenants.set("acme", retention_days=1000)
    past.add(60, tenant="acme")
    await app.retention.run()
    assert past.left() == set()


async def test_days_of_tenants_go_with_the_roll_ups(app: rota.App, past: Past) -> None:
    past.conn.execute(
        "INSERT INTO rota.tenant_days (tenant, day) VALUES ('acme', '2001-01-01'),"
        " ('acme', (rota.now() AT TIME ZONE 'UTC')::date)"
    )
    told = (await app.retention.plan()).items
    assert [it.rows for it in told if it.table == "tenant_days"] == [1]
    await app.retention.run()
    assert past.conn.execute("SELECT count(*) FROM rota.tenant_days").fetchone() == (1,)


async def test_a_plan_counts_what_nobody_has_analyzed(
    app: rota.App, past: Past, conn: Connection
) -> None:
    """Partitions that keep the lines of one job too; one that goes meanwhile has none."""
    policy(conn, log_days=90)
    Engine(conn).job("other")
    past.add(60, job="other", count=3)
    items = (await app.retention.plan()).items
    thinned = [one.rows for one in items if one.table == "logs" and one.action == "delete"]
    assert (sum(thinned), max(thinned)) == (3, 3)
    assert conn.execute("SELECT rota.count_part('logs_20010101')").fetchone() == (0,)


def test_a_large_partition_is_estimated(conn: Connection) -> None:
    conn.execute("CREATE TABLE rota.large AS SELECT FROM generate_series(1, 50000)")
    (exact,) = conn.execute("SELECT rota.count_part('large')").fetchone() or (0,)
    (found,) = conn.execute("SELECT rota.count_part('large', 40)").fetchone() or (0,)
    assert exact == 50_000
    assert 20_000 < found < 100_000
