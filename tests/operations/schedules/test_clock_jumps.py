"""Lists show what exists, whatever the clock did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import rota
from rota.postgres.runs.lists import find_states
from rota.testing import Clock, run_due

YEAR = timedelta(days=365)


@pytest.fixture
def jobs(app: rota.App, conn: psycopg.Connection) -> rota.App:
    """Ids begin where retention has removed others."""
    conn.execute("SELECT nextval('rota.run_ids') FROM generate_series(1, 10)")
    conn.execute("SELECT rota.mark_id()")

    @app.job
    async def send(user_id: int = 1) -> int:
        return user_id

    @app.job(max_attempts=3, backoff={"kind": "fixed", "base": 0, "jitter": 0})
    async def stumble(ctx: rota.Context) -> None:
        ctx.log.info("here", attempt=ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")

    return app


async def _one(app: rota.App, conn: psycopg.Connection) -> int:
    """A run that has ended, and a mark after it, as upkeep sets them."""
    run = (await app.runs.enqueue("send")).id
    await run_due(app)
    conn.execute("SELECT rota.mark_id()")
    return run


async def _seen(app: rota.App, **filters: object) -> list[int]:
    newest = [run.id for run in await app.runs.list(**filters)]
    oldest = [run.id for run in await app.runs.list(order="oldest", **filters)]
    assert newest == oldest[::-1]
    return oldest


@pytest.mark.parametrize("jump", [YEAR, -YEAR])
async def test_runs_of_every_time_are_listed_and_found(
    jobs: rota.App, clock: Clock, conn: psycopg.Connection, jump: timedelta
) -> None:
    runs = [await _one(jobs, conn)]
    clock.set(datetime.now(UTC) + jump)
    runs += [await _one(jobs, conn), await _one(jobs, conn)]
    clock.reset()
    runs += [await _one(jobs, conn), (await jobs.runs.enqueue("send")).id]
    assert await _seen(jobs) == runs
    assert await _seen(jobs, states=["succeeded"]) == runs[:-1]
    for run in runs:
        assert (await jobs.runs.get(run)).id == run
    assert {row["id"] for row in await jobs.database.run(find_states(runs))} == set(runs)


async def test_a_clock_that_is_put_back_without_a_word_hides_nothing(
    jobs: rota.App, clock: Clock, conn: psycopg.Connection
) -> None:
    """The server's own clock tells nobody: nothing was marked since."""
    conn.execute("UPDATE rota.settings SET clock_offset = '1 year'")
    conn.execute("SELECT rota.mark_id()")
    runs = []
    conn.execute("UPDATE rota.settings SET clock_offset = '0'")
    runs.append((await jobs.runs.enqueue("send")).id)
    await run_due(jobs)
    assert await _seen(jobs) == runs
    conn.execute("SELECT rota.mark_id()")
    runs.append(await _one(jobs, conn))
    assert await _seen(jobs) == runs


async def test_filters_by_time_hold_after_a_jump(
    jobs: rota.App, clock: Clock, conn: psycopg.Connection
) -> None:
    now = datetime.now(UTC)
    first = await _one(jobs, conn)
    clock.set(now + YEAR)
    ahead = await _one(jobs, conn)
    clock.set(now + timedelta(hours=1))
    back = await _one(jobs, conn)
    clock.set(now + timedelta(days=30))
    later = await _one(jobs, conn)
    day = timedelta(days=1)
    assert await _seen(jobs, since=now + YEAR - day) == [ahead]
    assert await _seen(jobs, since=now + timedelta(minutes=30)) == [ahead, back, later]
    assert await _seen(jobs, until=now + day) == [first, back]
    assert await _seen(jobs, since=now + 20 * day, until=now + 40 * day) == [later]


async def test_attempts_and_lines_of_a_run_made_in_the_future_are_shown(
    jobs: rota.App, clock: Clock, conn: psycopg.Connection
) -> None:
    clock.set(datetime.now(UTC) + YEAR)
    conn.execute("SELECT rota.mark_id()")
    run = (await jobs.runs.enqueue("stumble", delay=1)).id
    clock.reset()
    conn.execute("UPDATE rota.open_runs SET run_at = rota.now()")
    await run_due(jobs)
    details = await jobs.runs.details(run)
    assert [one.attempt for one in details.attempts] == [1, 2, 3]
    assert len(details.logs) == 5  # of each attempt, and of the two that failed
