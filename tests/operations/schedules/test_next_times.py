"""Who makes or changes a schedule in Python knows its next time at once; SQL waits for a tick."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from tests.conftest import MakeApp

Connection = psycopg.Connection[Any]
Change = Callable[[rota.App], Coroutine[Any, Any, object]]
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def at_noon(app: rota.App, conn: Connection) -> rota.App:
    @app.job
    async def work() -> None: ...

    conn.execute("SELECT rota.set_clock(%s)", [NOON])
    return app


TIMINGS: list[dict[str, Any]] = [
    {"cron": "0 8 * * 1-5", "timezone": "America/New_York"},
    {"every": 90},
    {"every": 90, "every_from": "end"},
    {"every": 3600, "start_at": NOON - timedelta(days=3, minutes=7)},
    {"at": NOON + timedelta(hours=1)},
    {"cron": "0 * * * *", "start_at": NOON + timedelta(days=40)},
]


async def next_by_tick(app: rota.App, name: str) -> datetime | None:
    """What a tick computes for it."""
    async with app.database.connection() as conn:
        await conn.execute(
            "UPDATE rota.schedule_state SET next_run_at = NULL WHERE schedule_id"
            " = (SELECT id FROM rota.schedules WHERE name = %s)", [name],
        )  # fmt: skip
    await Scheduler(app.database, tick_seconds=1).tick()
    return (await app.schedules.get(name)).next_run_at


@pytest.mark.parametrize("timing", TIMINGS)
async def test_of_a_new_one_as_a_tick_would_say(at_noon: rota.App, timing: dict[str, Any]) -> None:
    made = await at_noon.schedules.create("s", "work", **timing)
    assert made.state == "active"
    assert made.next_run_at is not None
    found = await next_by_tick(at_noon, "s")
    assert found is not None
    assert abs(found - made.next_run_at) < timedelta(seconds=1)


async def paused(app: rota.App) -> None:
    await app.schedules.pause("s", until=timedelta(hours=2, minutes=30))


async def resumed(app: rota.App) -> None:
    await app.schedules.pause("s")
    await app.schedules.resume("s")


async def enabled(app: rota.App) -> None:
    await app.schedules.disable("s")
    await app.schedules.enable("s")


async def changed(app: rota.App) -> None:
    await app.schedules.update("s", cron="0 15 * * *")


async def touched(app: rota.App) -> None:
    await app.schedules.update("s", priority=3)


async def said_again(app: rota.App) -> None:
    await app.schedules.put("s", "work", cron="0 15 * * *")


async def moved(app: rota.App) -> None:
    await app.schedules.reschedule("s", NOON + timedelta(minutes=5))
    await app.schedules.pause("s")
    await app.schedules.resume("s")


@pytest.mark.parametrize(
    ("change", "minutes"),
    [(paused, 180), (resumed, 60), (enabled, 60), (changed, 180), (touched, 60), (said_again, 180),
     (moved, 5)],
)  # fmt: skip
async def test_of_a_changed_one(at_noon: rota.App, change: Change, minutes: int) -> None:
    await at_noon.schedules.create("s", "work", cron="0 * * * *")
    await change(at_noon)
    found = await at_noon.schedules.get("s")
    assert found.next_run_at == NOON + timedelta(minutes=minutes)
    assert found.state == ("paused" if change is paused else "active")


async def test_of_those_that_code_declares(make_app: MakeApp, conn: Connection) -> None:
    app = make_app()

    @app.job(schedules=[rota.cron("0 8 * * *")])
    async def declared() -> None: ...

    app.schedule("s", declared, every=60)
    for name in ("declared", "s"):
        found = await app.schedules.get(name)
        assert (found.state, found.next_run_at is None) == ("active", False)


async def test_plain_sql_waits_for_a_tick(at_noon: rota.App, conn: Connection) -> None:
    await at_noon.database.open()
    await at_noon.schedules.create("other", "work", every=60)
    conn.execute("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '0 * * * *')")
    found = await at_noon.schedules.get("s")
    assert (found.state, found.next_run_at) == ("pending", None)
    await Scheduler(at_noon.database, tick_seconds=1).tick()
    found = await at_noon.schedules.get("s")
    assert (found.state, found.next_run_at) == ("active", NOON + timedelta(hours=1))


async def test_computing_it_is_no_edit(at_noon: rota.App, conn: Connection) -> None:
    made = await at_noon.schedules.create("s", "work", cron="0 * * * *")
    assert made.version == 1
    actions = conn.execute("SELECT action FROM rota.audit WHERE object_id = 's'").fetchall()
    assert actions == [("schedule.created",)]


async def test_one_that_cannot_be_followed_is_left_to_the_tick(
    at_noon: rota.App, conn: Connection
) -> None:
    await at_noon.schedules.create("s", "work", cron="0 * * * *")
    conn.execute("UPDATE rota.schedules SET cron = '61 * * * *'")
    await at_noon.schedules.disable("s")
    await at_noon.schedules.enable("s")
    assert (await at_noon.schedules.get("s")).state == "pending"
