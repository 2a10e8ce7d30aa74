"""What outlives a schedule, what brings it back, and what may be named in it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from rota.testing import Clock
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def app(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send() -> None: ...

    await app.database.open()
    return app


async def tick(app: rota.App, seconds: float) -> None:
    Clock(app).advance(seconds)
    while await Scheduler(app.database, tick_seconds=15).tick():
        pass


async def test_mending_a_calendar_revives_what_it_parked(app: rota.App, conn: Connection) -> None:
    await app.calendars.create("days", {"weekends": False})
    await app.schedules.create(
        "s", "send", every=60, calendar="days", catch_up="all", overlap="allow"
    )
    await app.schedules.create("t", "send", every=60)
    await tick(app, 1)
    conn.execute("""UPDATE rota.calendars SET definition = '{"holidays": 7}'""")
    Engine(conn).set_schedule_state("t", parked_at="now", error="x")
    await tick(app, 61)
    assert (await app.schedules.get("s")).state == "parked"
    await app.calendars.update("days", definition={"holidays": []})
    found = await app.schedules.get("s")
    assert (found.state, found.error) == ("active", None)
    assert (await app.schedules.get("t")).state == "parked"
    await tick(app, 60)
    assert [one.decision for one in await app.schedules.history("s")] == ["ran", "caught_up"]


async def test_the_history_of_a_deleted_schedule_stays_under_its_name(app: rota.App) -> None:
    for _ in range(2):
        await app.schedules.create("s", "send", every=60, overlap="allow")
        await tick(app, 61)
        await app.schedules.delete("s")
    assert [one.decision for one in await app.schedules.history("s")] == ["ran", "ran"]
    await app.schedules.create("s", "send", every=60)
    assert await app.schedules.history("s") == []  # the one that is there has its own
    with pytest.raises(rota.ScheduleNotFound, match='named "x"'):
        await app.schedules.history("x")
    with pytest.raises(rota.ScheduleNotFound):
        await app.schedules.history("s", tenant="acme")


async def test_jobs_declared_after_opening_can_be_scheduled(app: rota.App) -> None:
    @app.job
    async def late() -> None: ...

    assert await app.schedules.put("p", "late", every=60)

    @app.job
    async def later() -> None: ...

    await app.schedules.create("c", "later", every=60)

    @app.job
    async def latest() -> None: ...

    await app.schedules.update("c", job="latest")
    assert {one.job for one in await app.schedules.list()} == {"late", "latest"}


async def test_a_job_that_was_rolled_back_with_its_schedule_is_registered_the_next_time(
    app: rota.App,
) -> None:
    @app.job
    async def late() -> None: ...

    with pytest.raises(rota.RotaError, match="calendar"):
        await app.schedules.put("p", "late", every=60, calendar="none")
    assert await app.schedules.put("p", "late", every=60)


def test_sync_too(app: rota.App) -> None:
    @app.job
    def late() -> None: ...

    assert app.schedules.sync.put("p", "late", every=60)
