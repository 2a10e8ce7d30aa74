"""Two people do not overwrite each other, and a tick is nobody's edit."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def engine(conn: Connection) -> Engine:
    return Engine(conn)


@pytest.fixture
def app(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send() -> None: ...

    return app


async def tick(app: rota.App, conn: Connection, seconds: int) -> None:
    conn.execute("SELECT rota.set_clock(rota.now() + make_interval(secs => %s))", [seconds])
    assert await Scheduler(app.database, tick_seconds=15).tick() >= 1


async def test_a_tick_raises_no_version(app: rota.App, conn: Connection) -> None:
    made = await app.schedules.create("s", "send", every=60)
    for _ in range(3):
        await tick(app, conn, 61)
    assert (await app.schedules.get("s")).version == made.version == 1
    changed = await app.schedules.update("s", every=300, version=made.version)
    assert changed.version == 2


async def test_a_second_editor_is_told(app: rota.App) -> None:
    made = await app.schedules.create("s", "send", every=60)
    await app.schedules.by("ada").update("s", description="hers", version=made.version)
    with pytest.raises(rota.VersionConflict, match='schedule "s" has changed: it is at version 2'):
        await app.schedules.by("bob").update("s", description="his", version=made.version)
    assert (await app.schedules.get("s")).description == "hers"


async def test_what_people_do_counts_and_what_rota_does_not(
    app: rota.App, conn: Connection
) -> None:
    await app.schedules.create("s", "send", every=60, pause_after_failures=1)

    async def version() -> int:
        return (await app.schedules.get("s")).version

    await app.schedules.pause("s", "lunch")
    assert await version() == 2
    await app.schedules.resume("s")
    await app.schedules.disable("s")
    await app.schedules.enable("s")
    assert await version() == 5
    at = conn.execute("SELECT rota.now() + interval '30 s'").fetchone()
    assert at is not None
    await app.schedules.reschedule("s", at[0])
    assert await version() == 6
    conn.execute("UPDATE rota.schedules SET description = description WHERE name = 's'")
    assert await version() == 6


async def test_a_pause_that_ends_by_itself_is_no_edit(app: rota.App, conn: Connection) -> None:
    await app.schedules.create("s", "send", every=60)
    until = conn.execute("SELECT rota.now() + interval '90 s'").fetchone()
    assert until is not None
    await app.schedules.pause("s", until=until[0])
    await tick(app, conn, 100)
    found = await app.schedules.get("s")
    assert (found.paused_at, found.version) == (None, 2)


async def test_a_pause_after_failures_is_no_edit(app: rota.App, engine: Engine) -> None:
    made = await app.schedules.create("s", "send", every=60, pause_after_failures=1)
    await tick(app, engine.conn, 61)
    worker = engine.worker("send")
    engine.fail(worker, engine.claim_one(worker, jobs=["send"]))
    found = await app.schedules.get("s")
    assert (found.state, found.paused_by, found.version) == ("paused", "rota", made.version)


async def test_jobs(app: rota.App) -> None:
    await app.database.open()
    found = await app.jobs.get("send")
    changed = await app.jobs.update("send", priority=1, version=found.version)
    assert changed.version == found.version + 1
    same = await app.jobs.update("send", priority=1, version=changed.version)
    assert same.version == changed.version
    with pytest.raises(rota.VersionConflict, match='job "send" has changed') as caught:
        await app.jobs.update("send", priority=2, version=found.version)
    assert isinstance(caught.value, rota.WrongState)
    with pytest.raises(rota.UnknownJob):
        await app.jobs.update("sent", priority=2, version=1)


async def test_calendars(app: rota.App) -> None:
    await app.calendars.create("days", {"holidays": ["2026-12-25"]})
    made = await app.calendars.get("days")
    await app.calendars.update("days", description="one", version=made.version)
    with pytest.raises(rota.VersionConflict):
        await app.calendars.update("days", description="two", version=made.version)
    found = await app.calendars.get("days")
    assert (found.description, found.version) == ("one", 2)
    with pytest.raises(rota.CalendarNotFound):
        await app.calendars.update("day", description="x", version=1)


async def test_queues(app: rota.App, conn: Connection) -> None:
    await app.database.open()
    conn.execute("SELECT rota.expect_version('queue', 'default', 1)")
    await app.queues.pause("default")
    await app.queues.resume("default")
    (found,) = [one for one in await app.queues.list() if one.name == "default"]
    assert found.version == 2
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("SELECT rota.expect_version('queue', 'default', 1)")
    assert caught.value.sqlstate == "RO008"


def test_plain_sql_is_told_too(conn: Connection) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('a')")
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'a', '* * * * *')")
    conn.execute("UPDATE rota.schedules SET cron = '0 * * * *' WHERE name = 's'")
    for words, code in (
        ("'schedule', 's', 1", "RO008"),
        ("'schedule', 't', 1", "RO007"),
        ("'job', 'b', 1", "RO001"),
        ("'calendar', 'c', 1", "RO002"),
        ("'run', '1', 1", "RO002"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(f"SELECT rota.expect_version({words})".encode())
        assert caught.value.sqlstate == code
    conn.execute("SELECT rota.expect_version('schedule', 's', 2)")
    # The number is Rota's: nobody sets it back.
    conn.execute("UPDATE rota.jobs SET version = 99, priority = 1 WHERE name = 'a'")
    assert conn.execute("SELECT version FROM rota.jobs WHERE name = 'a'").fetchone() == (2,)
