"""What is stored for the runs to come, and was accepted by the release before: payloads of
schedules, and default payloads. Commands leave them to the worker, whose code may upgrade them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.testing import run_due
from tests.conftest import MakeApp
from tests.sql_engine import Engine


async def first(n: int) -> str:
    return f"first {n}"


async def second(n: int, language: str) -> str:
    return f"second {n} {language}"


def with_language(old: dict[str, Any]) -> dict[str, Any]:
    return {"language": "en", **old}


@pytest.fixture
async def new(make_app: MakeApp) -> rota.App:
    """The second release. Operators of the first one have written payloads."""
    old = make_app()
    old.job(name="greet")(first)
    await run_due(old)
    await old.schedules.create("nightly", "greet", cron="0 3 * * *", payload={"n": 2})
    await old.jobs.update("greet", default_payload={"n": 5})
    app = make_app()
    app.job(name="greet", upgrade=with_language)(second)
    await run_due(app)
    return app


@pytest.fixture(params=["its own", "another"])
def app(request: pytest.FixtureRequest, new: rota.App, make_app: MakeApp) -> rota.App:
    """A process that declares the job, and one that does not."""
    return new if request.param == "its own" else make_app()


async def trigger(app: rota.App) -> int:
    return int((await app.schedules.trigger("nightly")).run_id)


async def enqueue(app: rota.App) -> int:
    return (await app.runs.enqueue("greet")).id


async def trigger_another(app: rota.App) -> int:
    await app.schedules.create("monthly", "greet", cron="0 3 1 * *")
    return int((await app.schedules.trigger("monthly")).run_id)


@pytest.mark.parametrize(
    ("way", "result"),
    [(trigger, "second 2 en"), (trigger_another, "second 5 en"), (enqueue, "second 5 en")],
)
async def test_the_worker_upgrades_it(
    app: rota.App, new: rota.App, engine: Engine, way: Callable[..., Any], result: str
) -> None:
    run = await way(app)
    await run_due(new)
    ended = engine.run(run)
    assert (ended["state"], ended["result"], ended["attempts_used"]) == ("succeeded", result, 1)


async def test_what_a_command_writes_is_checked(app: rota.App) -> None:
    for given in ({"n": 7}, {"n": 7, "language": 3}):
        with pytest.raises(rota.PayloadError, match="argument language"):
            await app.runs.enqueue("greet", given)
        with pytest.raises(rota.PayloadError, match="argument language"):
            await app.schedules.trigger("nightly", payload=given)
        with pytest.raises(rota.PayloadError, match="argument language"):
            await app.schedules.update("nightly", payload=given)


async def test_the_rest_of_a_schedule_can_be_changed(app: rota.App) -> None:
    changed = await app.schedules.update("nightly", every=60, priority=3)
    assert (changed.payload, changed.priority) == ({"n": 2}, 3)


async def schedule(make_app: MakeApp, payload: dict[str, Any], **others: Any) -> None:
    """Start another application, which schedules a job that it does not have."""
    app = rota.App(config=make_app().config, name="billing")
    app.schedule("billing", "greet", every=60, payload=payload, **others)
    try:
        await run_due(app)
    finally:
        await app.close()


async def test_an_application_starts_that_schedules_the_job_of_another(
    make_app: MakeApp, engine: Engine
) -> None:
    """The other one has been deployed, with another signature."""
    shop = make_app()
    shop.job(name="greet")(first)
    await run_due(shop)
    await schedule(make_app, {"n": 1})
    shop = make_app()
    shop.job(name="greet", upgrade=with_language)(second)
    await run_due(shop)
    await schedule(make_app, {"n": 1}, description="the next release")
    assert engine.one("SELECT description FROM rota.schedules WHERE name = 'billing'") is not None
    with pytest.raises(rota.PayloadError, match="argument language"):
        await schedule(make_app, {"n": 2})
