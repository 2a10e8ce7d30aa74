"""Init schedules: at the start of workers, by exactly one of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rota
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine


def declare(app: rota.App, when: Any, *, fail: bool = False) -> list[int]:
    """A job that notes its runs."""
    seen: list[int] = []

    @app.job(name="prepare", max_attempts=1, schedules=[rota.on_start(when)])
    async def prepare(ctx: rota.Context) -> None:
        seen.append(ctx.run_id)
        if fail:
            raise ValueError("not yet")

    return seen


async def start_and_stop(app: rota.App, engine: Engine, *, runs: int) -> None:
    """A worker comes, everything ends, and it goes."""
    async with app.worker():
        ended = "SELECT count(*) FROM rota.ended_runs WHERE job = 'prepare'"
        await eventually(lambda: engine.one(ended) == runs and not is_open(engine))


def is_open(engine: Engine) -> bool:
    return bool(engine.one("SELECT count(*) FROM rota.open_runs"))


async def test_once_runs_until_it_succeeded_and_never_again(
    make_app: MakeApp, engine: Engine
) -> None:
    failing = make_app()
    declare(failing, "once", fail=True)
    await start_and_stop(failing, engine, runs=1)
    working = make_app()
    seen = declare(working, "once")
    await start_and_stop(working, engine, runs=2)
    assert len(seen) == 1
    third = make_app()
    declare(third, "once")
    await start_and_stop(third, engine, runs=2)
    (schedule,) = engine.rows(
        "SELECT t.* FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id"
        " WHERE s.name = 'prepare'"
    )
    assert schedule["finished_at"] is not None
    assert schedule["run_count"] == 2
    ledger = engine.rows(
        "SELECT decision, success FROM rota.occurrences WHERE schedule = 'prepare'"
        " ORDER BY nominal_at"
    )
    assert [tuple(row.values()) for row in ledger] == [("ran", False), ("ran", True)]


async def test_its_run_says_what_triggered_it(app: rota.App, engine: Engine) -> None:
    declare(app, "once")
    await start_and_stop(app, engine, runs=1)
    (run,) = engine.rows("SELECT schedule, triggered_by FROM rota.runs")
    assert run["schedule"] == "prepare"
    assert run["triggered_by"]["type"] == "scheduler"
    assert run["triggered_by"]["schedule"] == "prepare"


async def test_release_runs_once_a_release(make_app: MakeApp, engine: Engine) -> None:
    for release, runs in (("1", 1), ("1", 1), ("2", 2), ("1", 2), (None, 2)):
        app = make_app(release=release) if release else make_app()
        declare(app, "release")
        await start_and_stop(app, engine, runs=runs)


async def test_start_runs_when_no_worker_was_live_before(make_app: MakeApp, engine: Engine) -> None:
    first, second, third = make_app(), make_app(), make_app()
    for app in (first, second, third):
        declare(app, "start")
    ended = "SELECT count(*) FROM rota.ended_runs"
    async with first.worker():
        await eventually(lambda: engine.one(ended) == 1)
        async with second.worker():
            assert engine.one("SELECT count(*) FROM rota.init_runs") == 1
        assert engine.one("SELECT count(*) FROM rota.init_runs") == 1
    await start_and_stop(third, engine, runs=2)


async def test_of_many_that_start_at_once_one_runs_it(make_app: MakeApp, engine: Engine) -> None:
    apps = [make_app(release="1") for _ in range(6)]
    for app in apps:

        @app.job(
            name="prepare",
            schedules=[rota.on_start("once"), rota.on_start("release"), rota.on_start("start")],
        )
        async def prepare() -> None: ...

    workers = [app.worker() for app in apps]
    await asyncio.gather(*(worker.start() for worker in workers))
    await eventually(lambda: engine.one("SELECT count(*) FROM rota.ended_runs") == 3)
    await asyncio.gather(*(worker.stop() for worker in workers))
    markers = engine.rows("SELECT marker FROM rota.init_runs ORDER BY marker")
    assert [row["marker"] for row in markers] == ["once", "release 1", "start 1"]
    assert engine.one("SELECT count(*) FROM rota.runs") == 3


async def test_a_worker_that_comes_back_after_a_lost_lease_is_no_start(
    app: rota.App, engine: Engine
) -> None:
    declare(app, "start")
    async with app.worker() as worker:
        await eventually(lambda: engine.one("SELECT count(*) FROM rota.ended_runs") == 1)
        before = worker.id
        assert before is not None
        engine.lose(before)
        await eventually(lambda: worker.id not in (None, before))
        number = "SELECT number FROM rota.fleets WHERE application = %s"
        assert engine.one(number, app.name) == 1
        assert engine.one("SELECT count(*) FROM rota.init_runs") == 1


async def test_workers_without_a_scheduler_leave_it(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(scheduler={"enabled": False})
    declare(app, "once")
    async with app.worker():
        assert engine.one("SELECT count(*) FROM rota.init_runs") == 0
    await start_and_stop(make_declared(make_app), engine, runs=1)


def make_declared(make_app: MakeApp) -> rota.App:
    app = make_app()
    declare(app, "once")
    return app


async def test_disabled_and_paused_ones_wait_for_a_later_start(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_declared(make_app)
    await app.database.open()
    engine.conn.execute("SELECT rota.pause_schedule('prepare')")
    async with app.worker():
        assert engine.one("SELECT count(*) FROM rota.init_runs") == 0
    engine.conn.execute("SELECT rota.resume_schedule('prepare')")
    await start_and_stop(make_declared(make_app), engine, runs=1)


async def test_only_a_worker_that_knows_the_job_runs_it(make_app: MakeApp, engine: Engine) -> None:
    await make_declared(make_app).database.open()
    other = make_app()

    @other.job
    async def something() -> None: ...

    async with other.worker():
        assert engine.one("SELECT count(*) FROM rota.init_runs") == 0


async def decisions(engine: Engine) -> list[tuple[Any, ...]]:
    rows = engine.rows(
        "SELECT decision, reason, details ->> 'init' AS init FROM rota.occurrences"
        " WHERE schedule = 'prepare' ORDER BY nominal_at"
    )
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT rota.disable_schedule('prepare')", "disabled"),
        ("SELECT rota.pause_schedule('prepare')", "paused"),
        ("SELECT rota.set_job_enabled('prepare', false)", "job_disabled"),
        ("UPDATE rota.schedules SET is_shadow = true WHERE name = 'prepare'", "shadow"),
    ],
)
async def test_a_start_that_is_let_pass_is_written_down(
    make_app: MakeApp, engine: Engine, statement: str, reason: str
) -> None:
    app = make_app()
    seen = declare(app, "start")
    await app.database.open()
    engine.rows(statement)
    async with app.worker(), make_app_like(make_app).worker():
        pass
    async with app.worker():
        pass
    assert seen == []
    assert await decisions(engine) == [
        ("skipped", reason, "start 1"), ("skipped", reason, "start 2"),
    ]  # fmt: skip


def make_app_like(make_app: MakeApp) -> rota.App:
    other = make_app()
    declare(other, "start")
    return other


async def test_a_pause_that_is_over_lets_the_next_start_run(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app()
    declare(app, "once")
    await app.database.open()
    engine.one("SELECT rota.pause_schedule('prepare', until => rota.now() + interval '1 hour')")
    async with app.worker():
        pass
    assert await decisions(engine) == [("skipped", "paused", "once")]
    engine.advance(3601)
    await start_and_stop(app, engine, runs=1)
    assert (await decisions(engine))[-1] == ("ran", None, "once")
