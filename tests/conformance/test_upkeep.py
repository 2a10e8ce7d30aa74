"""Parking, sweeping, partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rota.model.outcome import Failure, Requeue
from rota.postgres.pipeline.ends import Ends
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.sessions.pool import Database
from tests.sql_engine import Engine

DAY = 86400


def test_runs_that_no_live_worker_knows_are_parked_and_freed(engine: Engine) -> None:
    engine.job("rare")
    run, common = engine.enqueue("rare"), engine.enqueue()
    worker = engine.worker("work")
    assert engine.park() == 1
    assert engine.run(run)["held_by"] == "no_worker"
    assert engine.run(common)["held_by"] is None
    assert engine.free() == 0
    knowing = engine.worker("work", "rare")
    assert engine.free() == 1
    assert engine.claim_one(knowing, jobs=["rare"])["id"] == run
    assert engine.claim_one(worker)["id"] == common


def test_what_runs_or_waits_for_its_time_is_not_parked(engine: Engine) -> None:
    engine.enqueue(delay="1 hour")
    engine.enqueue()
    worker = engine.worker()
    engine.claim_one(worker)
    engine.lose(worker)
    assert engine.park() == 0


def test_parked_for_long_enough_it_fails(engine: Engine) -> None:
    run = engine.enqueue(key="a")
    engine.park()
    engine.count_depths()
    assert engine.rows("SELECT rota.fail_unknown_runs(%s, 100)", DAY) == []
    engine.advance(DAY + 1)
    engine.rows("SELECT rota.fail_unknown_runs(%s, 100)", DAY)
    ended = engine.run(run)
    assert (ended["state"], ended["end_reason"]) == ("failed", "unknown job")
    assert "no live worker knew the job" in ended["last_error"]
    assert engine.attempts(run) == []
    assert engine.enqueue(key="a") != run


def test_the_time_counts_from_the_parking(engine: Engine) -> None:
    """A backlog of two days must not fail because its only worker restarts."""
    run = engine.enqueue()
    engine.advance(2 * DAY)
    engine.park()
    engine.count_depths()
    engine.rows("SELECT rota.fail_unknown_runs(%s, 100)", DAY)
    assert engine.state(run) == "queued"


def test_finishes_work_a_year_ahead(engine: Engine) -> None:
    """By the feed, which makes the missing partition."""
    engine.advance(365 * DAY)
    run = engine.enqueue()
    engine.cancel(run)
    assert engine.run(run)["finished_at"].year >= 2026


@pytest.mark.parametrize("is_plain", [True, False])
async def test_the_feed_makes_partitions_when_they_are_missing(
    engine: Engine, database_url: str, is_plain: bool
) -> None:
    ended, again, worker = engine.enqueue(), engine.enqueue(), engine.worker()
    claims = engine.claim(worker)
    engine.advance(365 * DAY)
    database = Database(schema="rota", prepare=lambda: database_url, on_open=lambda conn: None)
    feed = Exchange(database, worker, ["work"])
    ends = Ends()
    ends.succeeded(claims[0]["id"], claims[0]["attempt"], 1.0, None, is_plain)
    ends.others.append(
        (
            claims[1]["id"],
            claims[1]["attempt"],
            1.0,
            Requeue("failed", 5, True, None, Failure("E", "e")),
        )
    )
    accepted, _ = await feed.exchange(ends, None)
    assert accepted
    await feed.close()
    await database.close()
    assert engine.state(ended) == "succeeded"
    assert engine.attempt_states(again) == ["failed"]


@pytest.mark.parametrize("is_plain", [True, False])
async def test_one_locked_row_does_not_hold_up_the_others(
    engine: Engine,
    database_url: str,
    connect: Callable[..., psycopg.Connection[Any]],
    is_plain: bool,
) -> None:
    runs, worker = [engine.enqueue() for _ in range(3)], engine.worker()
    claims = engine.claim(worker)
    locker = connect(autocommit=False)
    locker.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [runs[1]])
    database = Database(schema="rota", prepare=lambda: database_url, on_open=lambda conn: None)
    feed = Exchange(database, worker, ["work"])
    ends = Ends()
    for claim in claims:
        ends.succeeded(claim["id"], claim["attempt"], 1.0, '{"a": 1}', is_plain)
    accepted, _ = await feed.exchange(ends, None)
    assert not accepted
    assert [engine.state(run) for run in runs] == ["succeeded", "running", "succeeded"]
    assert (feed.refused, await feed.keep(ends)) == (1, 1)
    locker.rollback()
    assert engine.one("SELECT rota.settle_kept_ends(10)") == 0
    assert engine.run(runs[1])["result"] == {"a": 1}
    await feed.close()
    await database.close()


def test_the_sweep_removes_what_nobody_needs(engine: Engine) -> None:
    run, worker, old = engine.enqueue(), engine.worker(), engine.worker()
    claim = engine.claim_one(worker, batch=1)
    engine.claim(worker, 0, start_batch=1)
    engine.cancel(run)
    engine.one("SELECT rota.sweep(100)")
    assert engine.one("SELECT count(*) FROM rota.cancel_requests") == 1
    engine.fail(worker, claim)
    engine.conn.execute(
        "UPDATE rota.workers SET state = 'gone', ended_at = now() - interval '8 days'"
        " WHERE id IN (%s, %s)",
        [worker, old],
    )
    engine.one("SELECT rota.sweep(100)")
    for table in ("cancel_requests", "workers", "batch_starts"):
        assert engine.one(f"SELECT count(*) FROM rota.{table}") == 0


def test_partitions_are_made_once_and_hold_their_days(engine: Engine) -> None:
    made = engine.one("SELECT rota.ensure_partitions('2031-01-01', '2031-01-20')")
    assert made > 20
    assert engine.one("SELECT rota.ensure_partitions('2031-01-01', '2031-01-20')") == 0
    assert engine.one("SELECT rota.ensure_partitions('2000-12-25', '2000-12-25')") > 0


def test_an_ended_run_is_found_without_probing_every_partition(engine: Engine) -> None:
    engine.one("SELECT rota.mark_id()")
    assert engine.one("SELECT count(*) FROM rota.id_marks") == 1
    engine.one("SELECT rota.mark_id()")
    assert engine.one("SELECT count(*) FROM rota.id_marks") == 1


def test_every_writer_of_history_works_after_weeks_without_a_worker(engine: Engine) -> None:
    """Nobody has made partitions for today: the clock stands where no upkeep has come."""
    engine.job("bound", events=["order.made"])
    engine.conn.execute(
        "INSERT INTO rota.schedules (name, job, init) VALUES ('warm', 'work', 'start'),"
        " ('off', 'work', 'start');"
        " UPDATE rota.schedules SET is_enabled = false WHERE name = 'off'"
    )
    waiting = engine.enqueue()
    engine.one("SELECT rota.set_clock(rota.now() + interval '60 days')")
    worker = engine.worker("work", "bound")
    engine.one("SELECT rota.start_worker(%s, 'shop', 'b', true, NULL)", worker)
    started = engine.rows("SELECT * FROM rota.run_inits(%s, NULL)", worker)
    assert [row["schedule"] for row in started] == ["warm"]
    made = engine.rows("SELECT schedule, decision FROM rota.ledger ORDER BY 1")
    assert [tuple(row.values()) for row in made] == [("off", "skipped"), ("warm", "ran")]
    engine.one("SELECT rota.cancel_run(%s)", waiting)
    engine.one("SELECT rota.emit('order.made')")
    assert engine.one("SELECT count(*) FROM rota.events") == 1
    assert engine.state(waiting) == "cancelled"
    engine.one("SELECT rota.retry_run(%s)", waiting)
    assert engine.state(waiting) == "queued"
