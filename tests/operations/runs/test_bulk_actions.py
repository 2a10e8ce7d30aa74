"""An action on all runs of a filter, as an object."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.bulk_actions import BulkActionLoop
from rota.model.bulk_action import BulkAction
from rota.postgres.runs import bulk_work
from rota.testing import run_due

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(queue="mail")
    async def send(user_id: int = 1) -> int:
        return user_id

    @app.job(max_attempts=1)
    async def fail(message: str = "no way") -> None:
        raise ValueError(message)

    return app


async def _enqueue(app: rota.App, job: str, count: int, **options: Any) -> list[int]:
    return [(await app.runs.enqueue(job, **options)).id for _ in range(count)]


async def _states(app: rota.App, ids: list[int]) -> set[str]:
    return {(await app.runs.get(it)).state for it in ids}


def _counts(action: BulkAction) -> tuple[int, int, int]:
    return action.done, action.skipped, action.failed


async def _batch(app: rota.App, action: BulkAction) -> bool:
    return await app.database.run(bulk_work.work(bulk_work.BulkTurn(), action.id))


async def test_all_of_the_filter_and_nothing_that_came_later(
    jobs: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_work, "BATCH", 3)
    dead = await _enqueue(jobs, "fail", 8)
    await run_due(jobs)
    action = await jobs.bulk.by("ada").start("retry", dead=True, reason="mended")
    assert (action.verb, action.state, action.actor) == ("retry", "running", "ada")
    assert action.filter == {"dead": True}
    assert not action.has_worker
    later = await _enqueue(jobs, "fail", 1)
    await jobs.runs.cancel(later[0])

    assert await _batch(jobs, action)
    under_way = await jobs.bulk.get(action.id)
    assert (_counts(under_way), under_way.total, under_way.is_counted) == ((3, 0, 0), 8, True)
    told: list[int] = []
    ended = await jobs.bulk.carry_out(action.id, told.append)
    assert (ended.state, _counts(ended), ended.total) == ("finished", (8, 0, 0), 8)
    assert sum(told) == 8
    assert await _states(jobs, dead) == {"queued"}
    assert await _states(jobs, later) == {"cancelled"}
    assert not await _batch(jobs, action), "it is over"


async def test_what_fails_again_meanwhile_is_not_retried_again(
    jobs: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_work, "BATCH", 2)
    dead = await _enqueue(jobs, "fail", 4)
    await run_due(jobs)
    action = await jobs.bulk.start("retry", states=["failed"])
    await jobs.runs.retry(dead[0], reason="by hand")
    await run_due(jobs)
    await _batch(jobs, action)
    await run_due(jobs)
    ended = await jobs.bulk.carry_out(action.id)
    assert _counts(ended) == (3, 0, 0)
    assert (await jobs.runs.get(dead[0])).state == "failed", "it ended after the start"


async def test_what_it_did_is_in_the_audit(jobs: rota.App, conn: Connection) -> None:
    (run,) = await _enqueue(jobs, "send", 1)
    action = await jobs.bulk.by("ada").start("cancel", job="send", reason="storm")
    await jobs.bulk.carry_out(action.id)
    rows = conn.execute(
        "SELECT actor, action, object_id, reason, after FROM rota.audit ORDER BY id DESC LIMIT 2"
    ).fetchall()
    told = {"verb": "cancel", "done": 1, "skipped": 0, "failed": 0}
    assert rows[0] == ("ada", "bulk.finished", str(action.id), "storm", told)
    assert rows[1][:4] == (
        "ada", "run.cancelled", str(run), f"storm (bulk action {action.id})"
    )  # fmt: skip


async def test_it_is_paused_resumed_throttled_and_stopped(
    jobs: rota.App, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_work, "BATCH", 1)
    ids = await _enqueue(jobs, "send", 3)
    action = await jobs.bulk.start("cancel", job="send")
    await _batch(jobs, action)
    assert (await jobs.bulk.pause(action.id, "wait")).state == "paused"
    assert not await _batch(jobs, action)
    assert (await jobs.bulk.pause(action.id)).state == "paused"
    await jobs.bulk.resume(action.id)
    assert (await jobs.bulk.resume(action.id)).state == "running"
    assert (await jobs.bulk.throttle(action.id, 0.02)).rate == 0.02
    assert await _batch(jobs, action)
    assert not await _batch(jobs, action), "the next batch is not due"
    assert (await jobs.bulk.throttle(action.id, None)).rate is None
    stopped = await jobs.bulk.stop(action.id, "enough")
    assert (stopped.state, stopped.done) == ("stopped", 2)
    assert not await _batch(jobs, action)
    assert (await jobs.runs.get(ids[0])).state == "queued"
    assert await jobs.bulk.stop(action.id) == stopped
    for command in (jobs.bulk.pause, jobs.bulk.resume):
        with pytest.raises(rota.WrongState, match="is stopped"):
            await command(action.id)
    actions = conn.execute(
        "SELECT action FROM rota.audit WHERE object_type = 'bulk' ORDER BY id"
    ).fetchall()
    words = ["started", "paused", "resumed", "throttled", "throttled", "stopped"]
    assert actions == [(f"bulk.{word}",) for word in words]


@pytest.mark.parametrize("given", [{"limit": 0}, {"rate": 0.0}, {"rate": 1e7}])
async def test_limit_and_rate_have_their_ranges(jobs: rota.App, given: dict[str, Any]) -> None:
    with pytest.raises(rota.FilterError, match=f"{next(iter(given))} must be"):
        await jobs.bulk.start("cancel", job="send", **given)


async def test_runs_that_changed_are_skipped_and_those_that_cannot_be_are_told(
    jobs: rota.App,
) -> None:
    succeeded = await _enqueue(jobs, "send", 1)
    await run_due(jobs)
    held = await _enqueue(jobs, "send", 1, key="k")
    await jobs.runs.cancel(held[0])
    await _enqueue(jobs, "send", 1, key="k")
    action = await jobs.bulk.start("retry", states=["succeeded", "cancelled"])
    ended = await jobs.bulk.carry_out(action.id)
    assert _counts(ended) == (0, 1, 1)
    assert [one["id"] for one in ended.problems] == held
    assert "its key" in ended.problems[0]["reason"]
    assert await _states(jobs, succeeded) == {"succeeded"}


async def test_a_locked_run_is_tried_again_and_not_missed(jobs: rota.App, connect: Any) -> None:
    ids = await _enqueue(jobs, "send", 3)
    other = connect(autocommit=False)
    other.execute("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", [ids[1]])
    action = await jobs.bulk.start("cancel", job="send")
    await _batch(jobs, action)
    held = await jobs.bulk.get(action.id)
    assert (held.state, held.done) == ("running", 2)
    other.rollback()
    ended = await jobs.bulk.carry_out(action.id)
    assert (ended.state, _counts(ended)) == ("finished", (3, 0, 0))


async def test_limit_delay_and_payload(jobs: rota.App) -> None:
    ids = await _enqueue(jobs, "fail", 4)
    await run_due(jobs)
    action = await jobs.bulk.start(
        "retry", job="fail", limit=3, delay=60, payload={"message": "edited"}
    )
    ended = await jobs.bulk.carry_out(action.id)
    assert (ended.done, ended.total, ended.is_counted) == (3, 3, True)
    again = await jobs.runs.get(ids[-1])
    assert (again.state, again.payload) == ("scheduled", {"message": "edited"})
    assert (await jobs.runs.get(ids[0])).state == "failed"


async def test_deleting_takes_only_what_has_ended(jobs: rota.App) -> None:
    await _enqueue(jobs, "send", 2)
    await run_due(jobs)
    waiting = await _enqueue(jobs, "send", 1)
    action = await jobs.bulk.start("delete", queue="mail")
    assert _counts(await jobs.bulk.carry_out(action.id)) == (2, 0, 0)
    assert [run.id for run in await jobs.runs.list()] == waiting


async def test_a_preview_counts_by_job_and_state_within_limits(
    jobs: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _enqueue(jobs, "send", 3)
    await _enqueue(jobs, "fail", 2, delay=60)
    found = await jobs.bulk.preview("cancel", since=None, tenant="")
    assert (found.runs, found.is_exact) == (5, True)
    assert [(one.job, one.state, one.runs) for one in found.groups] == [
        ("send", "queued", 3),
        ("fail", "scheduled", 2),
    ]
    monkeypatch.setattr("rota.operations.runs.bulk_actions.MOST_COUNTED", 2)
    bounded = await jobs.bulk.preview("cancel", job="send")
    assert (bounded.runs, bounded.is_exact) == (2, False)


async def test_one_that_cannot_go_on_says_why_and_keeps_no_other_waiting(
    jobs: rota.App, conn: Connection
) -> None:
    await _enqueue(jobs, "send", 2)
    broken_id = (await jobs.bulk.start("cancel", job="send")).id
    conn.execute('UPDATE rota.bulk_actions SET filter = \'{"colour": "red"}\'')
    action = await jobs.bulk.start("cancel", job="send")
    loop = BulkActionLoop(jobs.database)
    await loop.run_once()
    assert (await jobs.bulk.get(action.id)).state == "finished"
    broken = await jobs.bulk.get(broken_id)
    assert broken.error == "its filter is invalid: unknown filter colour"
    assert await loop.run_once() == 5.0, "it is not tried in a circle"


async def test_an_error_of_the_database_is_kept_with_the_action(
    jobs: rota.App, conn: Connection
) -> None:
    await _enqueue(jobs, "send", 1)
    conn.execute("ALTER FUNCTION rota.act_on_runs RENAME TO act_on_runs_away")
    action = await jobs.bulk.start("cancel", job="send")
    await BulkActionLoop(jobs.database).run_once()
    assert "act_on_runs" in ((await jobs.bulk.get(action.id)).error or "")


async def test_bad_input(jobs: rota.App) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("retry", {}), ("burn", {"job": "send"}), ("cancel", {"job": "send", "delay": 1}),
        ("retry", {"dead": True, "payload": {}}), ("retry", {"job": "send", "limit": 0}),
        ("retry", {"job": "send", "rate": -1}), ("retry", {"colour": "red"}),
    ]  # fmt: skip
    for verb, arguments in bad:
        with pytest.raises(rota.FilterError):
            await jobs.bulk.start(verb, **arguments)  # type: ignore[arg-type]
    for command in (jobs.bulk.get, jobs.bulk.pause, jobs.bulk.resume, jobs.bulk.stop):
        with pytest.raises(rota.BulkActionNotFound):
            await command(99)
    with pytest.raises(rota.BulkActionNotFound):
        await jobs.bulk.throttle(99, 1)
    with pytest.raises(rota.InputError):
        await jobs.bulk.throttle(99, 0)


async def test_the_list_and_sync_callers(jobs: rota.App) -> None:
    await _enqueue(jobs, "send", 1)
    first = jobs.bulk.sync.start("cancel", job="send")
    second = await jobs.bulk.start("retry", job="send")
    assert jobs.bulk.sync.carry_out(first.id).done == 1
    found = await jobs.bulk.page()
    assert [one.id for one in found.items] == [second.id, first.id]
    assert [one.id for one in (await jobs.bulk.page(is_open=True)).items] == [second.id]
    page = await jobs.bulk.page(limit=1)
    assert (await jobs.bulk.page(limit=1, cursor=page.cursor)).items[0].id == first.id
    finished = await jobs.bulk.page(state="finished")
    assert [one.id for one in finished.items] == [first.id]


async def test_a_filter_by_time_means_the_time_of_its_start(jobs: rota.App) -> None:
    from datetime import timedelta

    ids = await _enqueue(jobs, "send", 1)
    action = await jobs.bulk.start("cancel", since=timedelta(hours=1))
    assert "since" in action.filter
    assert (await jobs.bulk.carry_out(action.id)).done == 1
    assert await _states(jobs, ids) == {"cancelled"}
