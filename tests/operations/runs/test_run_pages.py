from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.model.run_filter import RunPage
from rota.postgres.runs import lists as run_lists
from rota.testing import Clock, run_due

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(queue="mail")
    async def send(user_id: int = 1) -> int:
        return user_id

    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no way")

    @app.job(max_attempts=3, give_up_on=ValueError)
    async def give_up() -> None:
        raise ValueError("at once")

    return app


async def _ids(app: rota.App, **filters: Any) -> list[int]:
    return [run.id for run in await app.runs.list(**filters)]


async def test_pages_lead_through_everything_in_both_orders(jobs: rota.App) -> None:
    ids = [(await jobs.runs.enqueue("send")).id for _ in range(5)]
    await run_due(jobs)
    ids += [(await jobs.runs.enqueue("send", delay=60)).id for _ in range(2)]
    for order, expected in (("newest", ids[::-1]), ("oldest", ids)):
        found: list[int] = []
        cursor = None
        while True:
            page: RunPage = await jobs.runs.page(order=order, cursor=cursor, limit=3)
            found += [run.id for run in page.runs]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == expected


async def test_filters_of_schedule_times_and_dead_letters(
    jobs: rota.App, clock: Clock, conn: Connection
) -> None:
    await jobs.runs.enqueue("send")
    conn.execute("UPDATE rota.open_runs SET schedule = 'digest'")
    old = (await jobs.runs.enqueue("fail")).id
    gave_up = (await jobs.runs.enqueue("give_up")).id
    await run_due(jobs)
    clock.advance(7200)
    new = (await jobs.runs.enqueue("send")).id
    assert [run.schedule for run in await jobs.runs.list(schedule="digest")] == ["digest"]
    assert await _ids(jobs, since=timedelta(hours=1)) == [new]
    assert new not in await _ids(jobs, until=timedelta(hours=1))
    assert await _ids(jobs, since=timedelta(hours=3), until=timedelta(hours=1), job="fail") == [old]
    assert await _ids(jobs, dead=True) == [gave_up, old]
    assert await _ids(jobs, states=["failed"]) == [gave_up, old]
    assert await _ids(jobs, dead=True, states=["succeeded"]) == []


async def test_a_search_that_runs_out_of_time_says_how_far_it_came(
    jobs: rota.App, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lists, "_PORTION", 2)
    ids = [(await jobs.runs.enqueue("send", {"user_id": n}, tags=["x"])).id for n in range(9)]
    rare = (await jobs.runs.enqueue("fail", tags=["rare"])).id
    conn.execute("INSERT INTO rota.id_marks VALUES (%s, rota.now())", [ids[0] - 1])
    page = await jobs.runs.page(tag="nothing", seconds=0)
    assert page.runs == []
    assert page.cursor is not None
    assert page.searched_to is not None
    while page.cursor is not None:
        page = await jobs.runs.page(tag="nothing", seconds=0, cursor=page.cursor)
    assert page.searched_to is None
    assert await _ids(jobs, tag="rare") == [rare]
    assert await _ids(jobs, tag="x", order="oldest") == ids


async def test_filters_that_make_no_sense_are_refused(jobs: rota.App) -> None:
    for filters in ({"states": ["done"]}, {"order": "random"}, {"limit": 0}, {"colour": "red"}):
        with pytest.raises(rota.FilterError):
            await jobs.runs.list(**filters)  # type: ignore[arg-type]


async def test_a_waiting_run_says_since_when_it_could_be_claimed(jobs: rota.App) -> None:
    run = await jobs.runs.enqueue("send")
    assert (await jobs.runs.get(run.id)).enqueued_at is not None
    await run_due(jobs)
    assert (await jobs.runs.get(run.id)).enqueued_at is None
