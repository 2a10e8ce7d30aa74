from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.operations.runs import batches as run_batches
from rota.testing import run_due, run_due_sync

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(queue="mail")
    async def send(ctx: rota.Context, user_id: int = 1) -> int:
        ctx.log.info("sent")
        return user_id

    @app.job(max_attempts=2, backoff="fixed", retry_on=ValueError)
    async def fail(message: str = "no way") -> None:
        raise rota.Retry(0, message)

    return app


async def _enqueue(app: rota.App, job: str, count: int, **options: Any) -> list[int]:
    return [(await app.runs.enqueue(job, **options)).id for _ in range(count)]


async def test_each_run_is_answered_for_in_the_order_given(jobs: rota.App) -> None:
    first, second = await _enqueue(jobs, "send", 2)
    await run_due(jobs)
    third, fourth = await _enqueue(jobs, "send", 2)
    result = await jobs.runs.by("ada").cancel_many([fourth, 999, first, third], reason="storm")
    assert [(one.id, one.outcome, one.reason) for one in result.items] == [
        (fourth, "cancelled", None),
        (999, "refused", "there is no run 999"),
        (first, "refused", f"run {first} has already ended (succeeded)"),
        (third, "cancelled", None),
    ]
    assert (result.done, result.refused) == (2, 2)
    assert (await jobs.runs.get(third)).end_reason == "cancelled by ada: storm"
    assert (await jobs.runs.get(second)).state == "succeeded"


async def test_every_run_is_in_the_audit_by_itself(jobs: rota.App, conn: Connection) -> None:
    ids = await _enqueue(jobs, "send", 3)
    await jobs.runs.by("ada").cancel_many(ids, reason="storm")
    rows = conn.execute(
        "SELECT actor, object_id, reason FROM rota.audit WHERE action = 'run.cancelled' ORDER BY id"
    ).fetchall()
    assert sorted(rows) == [("ada", str(it), "storm") for it in ids]


async def test_a_dry_run_says_the_same_and_changes_nothing(
    jobs: rota.App, conn: Connection
) -> None:
    waiting, ended = await _enqueue(jobs, "send", 1, delay=60), await _enqueue(jobs, "fail", 1)
    await run_due(jobs)
    wanted = [*waiting, *ended, 999]
    before = conn.execute("SELECT count(*) FROM rota.audit").fetchone()
    actions: list[Callable[..., Any]] = [
        jobs.runs.cancel_many, jobs.runs.retry_many, jobs.runs.cancel_many, jobs.runs.delete_many
    ]  # fmt: skip
    for action in actions:
        told = await action(wanted, dry_run=True)
        assert told.is_dry_run
        assert told.items == (await action(wanted, dry_run=True)).items
        assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == before
    for action in actions:
        told = await action(wanted, dry_run=True)
        assert (await action(wanted)).items == told.items


async def test_many_are_done_in_portions(jobs: rota.App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_batches, "_BATCH", 2)
    monkeypatch.setattr(run_batches, "_PORTION", 3)
    ids = await _enqueue(jobs, "send", 7)
    seen: list[int] = []
    result = await jobs.runs.cancel_many(ids, on_progress=seen.append)
    assert [one.id for one in result.items] == ids
    assert sum(seen) == 7
    assert (await jobs.runs.cancel_many([])).items == []
    with pytest.raises(rota.FilterError, match="too many"):
        await jobs.runs.cancel_many(range(1, 100_002))


async def test_one_that_is_locked_stops_no_other(jobs: rota.App, connect: Any) -> None:
    ids = await _enqueue(jobs, "send", 3)
    other = connect(autocommit=False)
    other.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [ids[1]])
    result = await jobs.runs.cancel_many(ids)
    assert [one.outcome for one in result.items] == ["cancelled", "refused", "cancelled"]
    assert result.items[1].reason == f"run {ids[1]} is locked by another transaction"
    other.rollback()


async def test_a_payload_is_checked_against_each_job(jobs: rota.App) -> None:
    sent, failed = await _enqueue(jobs, "send", 1), await _enqueue(jobs, "fail", 1)
    await jobs.runs.cancel_many(sent + failed)
    result = await jobs.runs.retry_many(sent + failed, payload={"message": "edited"}, delay=60)
    assert [one.outcome for one in result.items] == ["refused", "retried"]
    assert "user_id" in (result.items[0].reason or "") or "message" in (
        result.items[0].reason or ""
    )
    again = await jobs.runs.get(failed[0])
    assert (again.payload, again.state) == ({"message": "edited"}, "scheduled")


async def test_delete_takes_attempts_and_lines_along(jobs: rota.App, conn: Connection) -> None:
    (sent,), (failed,) = await _enqueue(jobs, "send", 1), await _enqueue(jobs, "fail", 1)
    with pytest.raises(rota.WrongState, match=f"run {sent} is queued"):
        await jobs.runs.delete(sent)
    with pytest.raises(rota.RunNotFound):
        await jobs.runs.delete(999)
    await run_due(jobs)
    assert conn.execute("SELECT count(*) FROM rota.past_attempts").fetchone() == (1,)
    assert conn.execute("SELECT count(*) FROM rota.logs").fetchone() == (3,)
    await jobs.runs.by("ada").delete(sent, "asked to")
    await jobs.runs.delete(failed)
    for table in ("runs", "attempts", "logs"):
        assert conn.execute(f"SELECT count(*) FROM rota.{table}".encode()).fetchone() == (0,)
    row = conn.execute(
        "SELECT actor, reason, before FROM rota.audit WHERE object_id = %s AND action = %s",
        [str(sent), "run.deleted"],
    ).fetchone()
    assert row is not None
    assert row[:2] == ("ada", "asked to")
    assert set(row[2]) == {"job", "state", "finished_at"}


def test_sync_callers_have_them_too(jobs: rota.App) -> None:
    run = jobs.runs.sync.enqueue("send").id
    assert jobs.runs.sync.cancel_many([run]).done == 1
    assert jobs.runs.sync.retry_many([run]).done == 1
    run_due_sync(jobs)
    assert jobs.runs.sync.delete_many([run]).done == 1


async def test_dead_letters_is_a_view(jobs: rota.App, conn: Connection) -> None:
    (run,) = await _enqueue(jobs, "fail", 1)
    await run_due(jobs)
    rows = conn.execute("SELECT id, error, attempts_used FROM rota.dead_letters").fetchall()
    assert rows == [(run, "no way", 2)]
    await jobs.runs.retry(run)
    assert conn.execute("SELECT id FROM rota.dead_letters").fetchall() == []
