"""A waiting run is over at its `expires_at` for every reader, before anybody writes that down."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.upkeep import Upkeep
from rota.errors import RunFailed
from tests.conftest import MakeApp
from tests.sql_engine import Engine, Row

WAITING = "SELECT count(*) FROM rota.open_runs"


def expired(engine: Engine, *, seconds: float = 60, **options: Any) -> int:
    """A run that is over, and that nobody has written down."""
    until = engine.one("SELECT rota.now() + interval '30 s'")
    run_id = engine.enqueue(expires_at=until, **options)
    engine.advance(seconds)
    return run_id


def is_over(run: Row) -> bool:
    ended = (run["state"], run["end_reason"], run["finished_at"], run["held_by"])
    return ended == ("cancelled", "expired", run["expires_at"], None)


@pytest.mark.parametrize("delay", [None, timedelta(hours=1)], ids=["queued", "scheduled"])
def test_it_is_over_in_the_view(engine: Engine, delay: timedelta | None) -> None:
    run_id = engine.enqueue(delay=delay, expires_at=engine.one("SELECT rota.now() + '30 s'"))
    assert engine.state(run_id) == ("queued" if delay is None else "scheduled")
    engine.advance(31)
    assert is_over(engine.run(run_id))
    assert engine.one(WAITING) == 1


def test_it_ends_when_it_expired_and_not_when_that_is_written(engine: Engine) -> None:
    engine.rows("SELECT rota.set_clock('2026-06-03 12:00Z')")
    run_id = expired(engine, key="k")
    seen = engine.run(run_id)
    assert engine.one("SELECT rota.expire_runs(10)") == 1
    assert engine.one(WAITING) == 0
    written = engine.run(run_id)
    assert is_over(written)
    assert written == seen
    assert engine.one("SELECT count(*) FROM rota.keys") == 0
    assert engine.one("SELECT rota.expire_runs(10)") == 0


def test_in_another_week_it_ends_when_it_is_written(engine: Engine) -> None:
    """There may be no partition for its own time."""
    engine.rows("SELECT rota.set_clock('2026-06-03 12:00Z')")
    run_id = expired(engine, seconds=30 * 86400)
    assert engine.one("SELECT rota.expire_runs(10)") == 1
    run = engine.run(run_id)
    assert run["end_reason"] == "expired"
    assert run["finished_at"] > run["expires_at"]


def test_one_that_expired_before_it_was_enqueued(engine: Engine) -> None:
    run_id = engine.enqueue(expires_at=engine.one("SELECT rota.now() - interval '1 hour'"))
    run = engine.run(run_id)
    assert (run["state"], run["finished_at"]) == ("cancelled", run["created_at"])


def test_what_runs_is_not_over(engine: Engine) -> None:
    until = engine.one("SELECT rota.now() + interval '30 s'")
    run_id = engine.enqueue(expires_at=until, key="k")
    worker = engine.worker()
    claim = engine.claim_one(worker)
    engine.advance(60)
    assert engine.state(run_id) == "running"
    assert engine.one("SELECT rota.expire_runs(10)") == 0
    assert engine.enqueue(key="k") == run_id
    assert engine.hand_back(worker, claim) == [run_id]
    assert is_over(engine.run(run_id))


def test_a_claim_that_comes_too_late_does_not_bring_it_back(engine: Engine) -> None:
    run_id = expired(engine)
    worker = engine.worker()
    claim = engine.claim_one(worker)
    assert (claim["is_expired"], is_over(engine.run(run_id))) == (True, True)
    assert engine.one("SELECT running + expired * 10 FROM rota.read_depths()") == 10
    engine.fail(worker, claim, state="cancelled", attempt_state="cancelled", reason="expired")
    assert (engine.state(run_id), engine.run(run_id)["end_reason"]) == ("cancelled", "expired")


@pytest.mark.parametrize("on_conflict", ["return", "raise", "replace"])
def test_its_key_is_free(engine: Engine, on_conflict: str) -> None:
    old = expired(engine, key="k")
    made = engine.enqueue_run(key="k", on_conflict=on_conflict)
    assert (made["run_id"] != old, made["is_duplicate"]) == (True, False)
    assert is_over(engine.run(old))
    assert engine.state(made["run_id"]) == "queued"


def test_a_key_that_outlives_its_run_does_so_from_the_expiry_on(engine: Engine) -> None:
    engine.rows("SELECT rota.set_clock('2026-06-03 12:00Z')")
    old = expired(engine, seconds=90, key="k", key_seconds=120)  # a minute ago
    assert engine.enqueue(key="k") == old
    engine.advance(61)
    assert engine.enqueue(key="k") != old


def test_two_who_want_its_key_get_one_run(engine: Engine, other: Engine) -> None:
    expired(engine, key="k")
    with engine.conn.transaction():
        first = engine.enqueue(key="k")
        other.conn.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.enqueue(key="k")
    assert other.enqueue(key="k") == first


def test_whoever_ends_it_it_has_expired(engine: Engine) -> None:
    run_id = expired(engine)
    engine.rows(
        "SELECT rota.end_waiting_runs(ARRAY[%s::bigint], 'failed', 'unknown job', 'X', 'y')", run_id
    )
    run = engine.run(run_id)
    assert is_over(run)
    assert run["last_error"] is None


def test_counts_leave_it_out(engine: Engine) -> None:
    expired(engine)
    engine.enqueue()
    depth = "SELECT queued, expired, oldest_at IS NOT NULL AS has_oldest FROM "
    seen = {"queued": 1, "expired": 1, "has_oldest": True}
    assert engine.rows(depth + "rota.read_depths()") == [seen]
    engine.count_depths()
    assert engine.rows(depth + "rota.depths") == [seen]


def test_it_does_not_keep_its_job(engine: Engine) -> None:
    expired(engine)
    engine.one("SELECT rota.delete_job('work')")
    assert engine.one("SELECT rota.expire_runs(10)") == 1


async def test_lists_stats_and_waits_without_a_worker(make_app: MakeApp, engine: Engine) -> None:
    app = make_app()
    run_id = expired(engine, key="k")
    for states in (["queued"], ["scheduled", "queued", "running"]):
        assert await app.runs.list(states=states) == []
    (found,) = await app.runs.list(states=["cancelled"])
    assert (found.id, found.end_reason) == (run_id, "expired")
    (by_key,) = await app.runs.list(key="k")
    assert by_key.state == "cancelled"
    stats = await app.stats.get()
    assert (stats.states.queued, stats.states.cancelled) == (0, 1)
    assert (await app.queues.get("default")).queue.queued == 0
    assert (await app.runs.wait(run_id, timeout=30)).end_reason == "expired"
    assert app.runs.sync.wait(run_id, timeout=30).end_reason == "expired"


async def test_whoever_waits_hears_of_it_when_it_expires(make_app: MakeApp, engine: Engine) -> None:
    app = make_app()
    until = engine.one("SELECT rota.now() + interval '1 hour'")
    run = await app.runs.enqueue("work", expires_at=until)
    polled = asyncio.Event()

    async def waiting() -> rota.RunInfo:
        polled.set()
        return await app.runs.wait(run.id, timeout=30)

    task = asyncio.create_task(waiting())
    await polled.wait()
    engine.advance(3601)
    assert (await task).end_reason == "expired"
    with pytest.raises(RunFailed, match="expired"):
        await run.wait(timeout=30)


async def test_upkeep_writes_it_down(make_app: MakeApp, engine: Engine) -> None:
    app = make_app()
    await app.database.open()
    expired(engine)
    await Upkeep(app.database, unknown_job_seconds=3600, refused_payload_seconds=60).run_once()
    assert engine.one(WAITING) == 0


# What people do to it.


def test_it_cannot_be_cancelled(engine: Engine) -> None:
    run_id = expired(engine)
    with pytest.raises(psycopg.Error, match="already ended") as refused:
        engine.cancel(run_id)
    assert refused.value.sqlstate == "RO005"
    assert engine.audit(run_id) == []


def test_it_can_be_retried_as_every_cancelled_one(engine: Engine) -> None:
    run_id = expired(engine, key="k")
    assert engine.retry(run_id) == run_id
    assert (engine.state(run_id), engine.run(run_id)["expires_at"]) == ("queued", None)
    assert engine.enqueue(key="k") == run_id


def test_it_can_be_deleted(engine: Engine) -> None:
    run_id = expired(engine)
    engine.one("SELECT rota.delete_run(%s)", run_id)
    assert engine.rows("SELECT FROM rota.runs WHERE id = %s", run_id) == []


def test_many_at_once(engine: Engine) -> None:
    over, waiting = expired(engine), engine.enqueue()
    rows = engine.rows("SELECT * FROM rota.act_on_runs('cancel', %s)", [over, waiting])
    assert [(row["answer"], row["refusal"] is None) for row in rows] == [
        (None, False), ("cancelled", True),
    ]  # fmt: skip
