"""An earlier name of a job means the job that was renamed: for old code beside new code, for other
applications, and for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import rota
from rota.testing import eventually, run_due
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Declare = Callable[..., tuple[rota.App, Any]]


async def greet(n: int) -> str:
    return f"hello {n}"


@pytest.fixture
def declare(make_app: MakeApp) -> Declare:
    """An application whose only job has this name."""

    def make(name: str, **options: Any) -> tuple[rota.App, Any]:
        app = make_app()
        return app, app.job(name=name, **options)(greet)

    return make


@pytest.fixture
async def renamed(declare: Declare) -> rota.App:
    """An application that has renamed its job from greet to welcome."""
    await run_due(declare("greet")[0])
    app, _ = declare("welcome", aliases=["greet"])
    await run_due(app)
    return app


def by_call(app: rota.App, job: str, other: str) -> None:
    app.job(name=other)(greet)
    app.schedule("poll", job, every=60, payload={"n": 1})
    app.schedule("later", other, every=60, payload={"n": 1}, requires=[job])


def by_decorator(app: rota.App, job: str, other: str) -> None:
    later = rota.every(60, name="later", payload={"n": 1}, requires=[job])
    app.job(name=other, schedules=[later])(greet)


@pytest.mark.parametrize("code", [by_call, by_decorator])
async def test_old_code_starts_beside_the_new_name(
    declare: Declare, engine: Engine, code: Callable[[rota.App, str, str], None]
) -> None:
    """Its schedules and their requirements have the old name."""
    first, _ = declare("greet")
    code(first, "greet", "other")
    await run_due(first)
    new, _ = declare("welcome", aliases=["greet"])
    code(new, "welcome", "other")
    async with new.worker():
        names = "SELECT array_agg(name) FROM rota.jobs WHERE name IN ('greet', 'welcome')"
        await eventually(lambda: engine.one(names) == ["welcome"], 30)
        old, before = declare("greet")
        code(old, "greet", "other")
        assert await (await before.enqueue(n=1)).wait(30) == "hello 1"
        async with old.worker():
            assert await (await before.enqueue(n=2)).wait(30) == "hello 2"
    required = "SELECT requires -> 0 ->> 'name' FROM rota.schedules WHERE name = 'later'"
    assert engine.one(required) == "welcome"


async def test_an_application_that_schedules_the_job_of_another(
    make_app: MakeApp, renamed: rota.App, engine: Engine
) -> None:
    stranger = make_app()
    stranger.schedule("poll", "greet", every=60, payload={"n": 1})
    stranger.schedule("later", "greet", every=60, payload={"n": 1}, requires=["poll"])
    await stranger.database.open()
    found = engine.rows("SELECT DISTINCT job FROM rota.schedules WHERE NOT is_system")
    assert found == [{"job": "welcome"}]
    version = "SELECT array_agg(version ORDER BY name) FROM rota.schedules"
    before = engine.one(version)
    again = make_app()
    again.schedule("poll", "greet", every=60, payload={"n": 1})
    again.schedule("later", "greet", every=60, payload={"n": 1}, requires=["poll"])
    await again.database.open()
    assert engine.one(version) == before


async def by_python(app: rota.App, engine: Engine) -> None:
    await app.schedules.create("s", "greet", every=60, payload={"n": 1}, requires=["t"])
    await app.schedules.create("u", "welcome", every=60, payload={"n": 1})
    await app.schedules.update("u", job="greet", requires=["greet"])


async def by_sql(app: rota.App, engine: Engine) -> None:
    engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds, payload, requires)"
        """ VALUES ('s', 'greet', 60, '{"n": 1}', '[{"name": "t"}]')"""
    )
    engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds, payload)"
        """ VALUES ('u', 'welcome', 60, '{"n": 1}')"""
    )
    engine.rows(
        "UPDATE rota.schedules SET job = 'greet', requires = %s WHERE name = 'u'",
        '[{"name": "greet", "within_seconds": 60}]',
    )


@pytest.mark.parametrize("way", [by_python, by_sql])
async def test_schedules(
    renamed: rota.App, engine: Engine, way: Callable[[rota.App, Engine], Awaitable[None]]
) -> None:
    engine.job("other")
    engine.rows("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('t', 'other', 9)")
    with pytest.raises(Exception, match="form a cycle: u → "):
        await way(renamed, engine)
    found = engine.rows("SELECT name, job FROM rota.schedules WHERE name IN ('s', 'u')")
    assert {it["job"] for it in found} == {"welcome"}


async def test_what_succeeded_under_the_old_name_meets_a_requirement(
    declare: Declare, engine: Engine
) -> None:
    old, before = declare("greet")
    engine.job("other")
    await before.enqueue(n=1)
    await run_due(old)
    await old.schedules.create("s", "other", every=60, requires=[rota.after("greet", within=3600)])
    new, _ = declare("welcome", aliases=["greet"])
    await run_due(new)
    engine.rows("UPDATE rota.schedules SET next_run_at = now() WHERE name = 's'")
    async with new.worker():
        await eventually(lambda: engine.one("SELECT count(*) FROM rota.ledger") == 1, 30)
    assert engine.rows("SELECT decision, reason FROM rota.ledger") == [
        {"decision": "ran", "reason": None}
    ]


@pytest.mark.parametrize("name", ["greet", "welcome"])
async def test_a_payload_is_checked_under_each_name(
    make_app: MakeApp, renamed: rota.App, name: str
) -> None:
    for app in (renamed, make_app()):
        with pytest.raises(rota.PayloadError, match="argument n"):
            await app.runs.enqueue(name, {"n": "x"})
        with pytest.raises(rota.PayloadError, match="argument n"):
            await app.schedules.create("s", name, every=60, payload={"n": "x"})


async def test_a_person_is_told_the_name_that_it_has_now(renamed: rota.App) -> None:
    with pytest.raises(rota.UnknownJob) as caught:
        await renamed.jobs.get("greet")
    assert caught.value.hint == "it was renamed: its name is welcome"


async def fail(n: int) -> str:
    raise ValueError("no")


@pytest.mark.parametrize("payload", [None, {"n": 2}])
async def test_a_dead_letter_of_the_old_name_is_retried(
    make_app: MakeApp, declare: Declare, engine: Engine, payload: dict[str, int] | None
) -> None:
    old = make_app()
    run = await old.job(name="greet", max_attempts=1)(fail).options(key="k").enqueue(n=1)
    await run_due(old)
    assert engine.state(run.id) == "failed"
    new, after = declare("welcome", aliases=["greet"])
    await run_due(new)
    codes = [it.code for it in (await new.why(run.id)).reasons]
    assert not {"job_unknown", "no_worker"} & {*codes}
    await new.runs.retry(run.id, payload=payload)
    held = await after.options(key="k").enqueue(n=3)
    assert held.id == run.id, "it has its key again"
    await run_due(new)
    assert engine.run(run.id)["result"] == f"hello {payload['n'] if payload else 1}"
    assert [it.state for it in (await new.runs.attempts(run.id)).items] == ["failed", "succeeded"]
