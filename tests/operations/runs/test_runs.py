from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import Clock, run_due

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(queue="mail", tags=["declared"])
    async def send(ctx: rota.Context, user_id: int) -> int:
        ctx.log.info("first", user=user_id)
        ctx.log.info("second")
        return user_id

    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no way")

    return app


async def test_list_filters_and_pages(jobs: rota.App) -> None:
    ids = [
        (
            await jobs.runs.enqueue("send", {"user_id": n}, key=f"k{n}", tenant=f"t{n}", tags=["x"])
        ).id
        for n in range(3)
    ]
    other = (await jobs.runs.enqueue("fail", delay=60)).id

    async def found(**filters: Any) -> list[int]:
        return [run.id for run in await jobs.runs.list(**filters)]

    assert await found() == [other, *reversed(ids)]
    assert await found(limit=2, before_id=other) == [ids[2], ids[1]]
    assert await found(states=["scheduled"]) == [other]
    assert await found(job="send", key="k1") == [ids[1]]
    assert await found(queue="mail", tenant="t2") == [ids[2]]
    assert await found(tag="x", limit=1) == [ids[2]]
    assert await found(tag="nobody") == []


async def test_since_counts_by_the_clock_of_the_database(jobs: rota.App, clock: Clock) -> None:
    old = await jobs.runs.enqueue("fail")
    clock.advance(3600)
    new = await jobs.runs.enqueue("fail")
    assert [run.id for run in await jobs.runs.list(since=timedelta(minutes=30))] == [new.id]
    assert {run.id for run in await jobs.runs.list(since=timedelta(hours=2))} == {old.id, new.id}
    boundary = (await jobs.runs.get(new.id)).created_at
    assert [run.id for run in await jobs.runs.list(since=boundary)] == [new.id]


async def test_details_hold_attempts_and_the_last_lines(jobs: rota.App) -> None:
    good, bad = await jobs.runs.enqueue("send", {"user_id": 7}), await jobs.runs.enqueue("fail")
    await run_due(jobs)
    found = await jobs.runs.details(good.id)
    assert found.run.result == 7
    assert [line.message for line in found.logs] == ["first", "second"]
    assert found.logs[0].fields == {"user": 7}
    assert [line.message for line in (await jobs.runs.details(good.id, log_lines=1)).logs] == [
        "second"
    ]
    (attempt,) = (await jobs.runs.details(bad.id)).attempts
    assert (attempt.state, attempt.error_type, attempt.error) == ("failed", "ValueError", "no way")


async def test_enqueue_checks_types_and_names_who_asked(jobs: rota.App, conn: Connection) -> None:
    with pytest.raises(rota.PayloadError, match="user_id"):
        await jobs.runs.enqueue("send", {"user": 7})
    assert await jobs.runs.list() == []
    run = await jobs.runs.by("alice").enqueue("send", {"user_id": 7}, priority=1)
    info = await run.info()
    assert info.triggered_by == {"type": "manual", "actor": "alice"}
    assert (info.priority, info.payload) == (1, {"user_id": 7})
    row = conn.execute("SELECT actor, action, object_id, after FROM rota.audit").fetchone()
    assert row == ("alice", "run.enqueued", str(run.id), {"job": "send"})


async def test_enqueue_of_a_job_declared_elsewhere_has_the_checks_of_the_database(
    jobs: rota.App, database_url: str, conn: Connection
) -> None:
    await jobs.database.open()
    bare = rota.App(database_url)
    run = bare.runs.sync.enqueue("send", {"user_id": 1})
    assert run.info_sync().payload == {"user_id": 1}
    with pytest.raises(rota.PayloadError, match="argument user_id is missing"):
        bare.runs.sync.enqueue("send", {})
    with pytest.raises(rota.UnknownJob):
        bare.runs.sync.enqueue("nobody")
    bare.close_sync()


async def test_a_duplicate_leaves_no_audit(jobs: rota.App, conn: Connection) -> None:
    first = await jobs.runs.enqueue("fail", key="k")
    second = await jobs.runs.enqueue("fail", key="k")
    assert (second.id, second.is_duplicate) == (first.id, True)
    assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == (1,)


async def test_retry_with_an_edited_payload(jobs: rota.App, conn: Connection) -> None:
    run = await jobs.runs.enqueue("send", {"user_id": 7})
    await jobs.runs.cancel(run.id)
    with pytest.raises(rota.PayloadError):
        await jobs.runs.retry(run.id, payload={"user_id": "seven"})
    assert (await run.info()).state == "cancelled"
    await jobs.runs.retry(run.id, "again", payload={"user_id": 8}, delay=timedelta(hours=1))
    info = await run.info()
    assert (info.state, info.payload) == ("scheduled", {"user_id": 8})
    row = conn.execute("SELECT before, reason FROM rota.audit ORDER BY id DESC LIMIT 1").fetchone()
    assert row == ({"state": "cancelled", "payload": {"user_id": 7}}, "again")


async def test_a_delay_is_not_negative(jobs: rota.App) -> None:
    run = await jobs.runs.enqueue("fail")
    await run.cancel()
    commands: list[Any] = [
        partial(jobs.runs.enqueue, "fail"),
        partial(jobs.runs.retry, run.id),
        partial(jobs.runs.retry_many, [run.id]),
        partial(jobs.bulk.start, "retry", job="fail"),
    ]
    for command in commands:
        for delay in (-5, timedelta(seconds=-1), float("nan"), "soon"):
            with pytest.raises(rota.InputError, match="delay must be a duration"):
                await command(delay=delay)
    assert await run.state() == "cancelled"
    assert (await jobs.bulk.page()).items == []


async def test_wrong_states_and_missing_runs(jobs: rota.App) -> None:
    run = await jobs.runs.enqueue("fail")
    with pytest.raises(rota.WrongState):
        await jobs.runs.retry(run.id)
    await run_due(jobs)
    with pytest.raises(rota.WrongState):
        await jobs.runs.cancel(run.id)
    for call in (jobs.runs.get, jobs.runs.details, jobs.runs.cancel, jobs.runs.retry):
        with pytest.raises(rota.RunNotFound):
            await call(999_999)


async def test_wait_answers_with_the_ended_run(jobs: rota.App) -> None:
    run = await jobs.runs.enqueue("send", {"user_id": 7})
    with pytest.raises(rota.WaitTimeout):
        await jobs.runs.wait(run.id, 0.01)
    async with jobs.worker():
        assert (await jobs.runs.wait(run.id, 20)).result == 7
    assert jobs.runs.sync.wait(run.id, 1).state == "succeeded"


async def test_an_enqueue_joins_the_transaction_of_a_connection(
    jobs: rota.App, database_url: str
) -> None:
    """It commits with it, or never was; the audit too."""
    async with await psycopg.AsyncConnection.connect(database_url) as conn:
        async with conn.transaction(force_rollback=True):
            gone = await jobs.runs.enqueue("send", {"user_id": 7}, connection=conn)
        with pytest.raises(rota.RunNotFound):
            await jobs.runs.get(gone.id)
        await conn.execute("SET rota.actor = 'ada'")
        kept = await jobs.runs.enqueue("send", {"user_id": 7}, connection=conn)
    found = await jobs.runs.get(kept.id)
    assert (found.triggered_by["type"], found.triggered_by["actor"]) == ("manual", "ada")
    with psycopg.connect(database_url) as sync, sync.transaction(force_rollback=True):
        gone = jobs.runs.sync.enqueue("send", {"user_id": 7}, connection=sync)
    audited = await jobs.audit.list(object_type="run")
    assert [one.object_id for one in audited] == [str(kept.id)]
    with pytest.raises(rota.InputError, match="does not take a"):
        await jobs.runs.enqueue("send", {"user_id": 7}, connection=jobs)
    with pytest.raises(rota.InputError, match="is sync"), psycopg.connect(database_url) as sync:
        await jobs.runs.enqueue("send", {"user_id": 7}, connection=sync)
