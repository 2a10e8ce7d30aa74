"""`app.tenants`: settings, pause, counts, statistics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.tenants import TenantLoop
from tests.sql_engine import Engine

HOUR = timedelta(hours=1)


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    return engine


async def test_absence_means_the_defaults(app: rota.App, engine: Engine) -> None:
    with pytest.raises(rota.TenantNotFound, match='there is no tenant "acme"'):
        await app.tenants.get("acme")
    engine.enqueue(tenant="acme")
    found = await app.tenants.get("acme")
    assert (found.has_settings, found.weight, found.is_paused, found.version) == (
        False,
        1,
        False,
        1,
    )
    await app.tenants.set("blue", weight=2)
    with pytest.raises(rota.TenantNotFound) as error:
        await app.tenants.get("bleu")
    assert error.value.hint == "did you mean blue?"


async def test_set_reads_back_and_is_audited(app: rota.App) -> None:
    made = await app.tenants.by("ada").set(
        "acme", "gold", weight=2.5, max_waiting=10, retention_days=7, metadata={"plan": "gold"}
    )
    assert (made.weight, made.max_waiting, made.retention_days) == (2.5, 10, 7)
    assert made.metadata == {"plan": "gold"}
    changed = await app.tenants.set("acme", version=made.version, max_waiting=None)
    assert (changed.max_waiting, changed.weight) == (None, 2.5)
    with pytest.raises(rota.VersionConflict):
        await app.tenants.set("acme", version=made.version, weight=1)
    with pytest.raises(rota.InputError, match="weight must be"):
        await app.tenants.set("acme", weight=0)
    with pytest.raises(rota.InputError, match="unknown argument 'colour'"):
        await app.tenants.set("acme", colour="red")  # type: ignore[call-arg]
    await app.tenants.reset("acme", "gone")
    said = [(it.action, it.actor, it.reason) for it in await app.audit.list(object_id="acme")]
    assert said[0][0] == "tenant.reset"
    assert said[-1] == ("tenant.set", "ada", "gold")


async def test_pause_and_resume(app: rota.App, engine: Engine) -> None:
    run = engine.enqueue(tenant="acme")
    assert await app.tenants.by("ada").pause("acme", "unpaid", HOUR) == 1
    found = await app.tenants.get("acme")
    assert (found.is_paused, found.paused_by, found.pause_reason) == (True, "ada", "unpaid")
    assert found.paused_until is not None
    assert (await app.runs.get(run)).held_by == "tenant"
    assert [one.name for one in await app.tenants.list(paused=True)] == ["acme"]
    with pytest.raises(rota.InputError, match="must be in the future"):
        await app.tenants.pause("blue", until=-HOUR)
    assert await app.tenants.resume("acme") == 1
    assert await app.tenants.resume("acme") is None, "it was not paused"
    await app.tenants.pause("acme", until=HOUR)
    engine.advance(3601)
    assert not (await app.tenants.get("acme")).is_paused, "whoever has written it down"


async def test_lists_are_ordered_paged_and_searched(app: rota.App, engine: Engine) -> None:
    for name, runs in (("a", 1), ("b", 3), ("c", 0), ("d", 2)):
        await app.tenants.set(name, description=f"customer {name}")
        for _ in range(runs):
            engine.enqueue(tenant=name)
    await TenantLoop(app.database).run_once()
    assert [one.name for one in await app.tenants.list()] == ["a", "b", "c", "d"]
    page = await app.tenants.page(order="waiting", limit=3)
    assert [(one.name, one.waiting) for one in page.items] == [("b", 3), ("d", 2), ("a", 1)]
    rest = await app.tenants.page(order="waiting", limit=3, cursor=page.cursor)
    assert ([one.name for one in rest.items], rest.cursor) == (["c"], None)
    assert [one.name for one in await app.tenants.list(text="MER D")] == ["d"]
    assert [one.name for one in await app.tenants.list(text="%")] == []
    with pytest.raises(rota.FilterError, match="unknown order"):
        await app.tenants.list(order="loud")  # type: ignore[arg-type]


async def test_statistics(app: rota.App) -> None:
    @app.job(max_attempts=1)
    async def work(fails: bool = False) -> None:
        if fails:
            raise ValueError("no")

    acme = app.tenant("acme")
    async with app.worker():
        runs = [await acme.enqueue(work, fails=n == 0) for n in range(3)]
        await work.enqueue()
        for run in runs:
            await app.runs.wait(run.id, timeout=20)
    found = await app.tenants.stats("acme")
    (day,) = found.days
    assert (day.succeeded, day.failed, day.other) == (2, 1, 0)
    assert day.seconds >= 0
    assert (found.recent, found.recent_failed) == (3, 1)
    assert found.median_seconds is not None
    await TenantLoop(app.database).run_once()
    (one,) = await app.tenants.list()
    assert (one.succeeded_today, one.failed_today) == (2, 1)


def test_for_sync_callers(app: rota.App) -> None:
    face = app.tenants.by("ada").sync
    assert face.set("acme", weight=3).weight == 3
    face.pause("acme")
    face.resume("acme")
    assert face.stats("acme").tenant.name == "acme"
    face.reset("acme")
    assert face.list() == []
    app.close_sync()


async def test_metrics_name_few_of_them(app: rota.App, engine: Engine) -> None:
    for n in range(5):
        for _ in range(n + 1):
            engine.enqueue(tenant=f"t{n}")
    await app.tenants.pause("t0")
    await TenantLoop(app.database).run_once()
    figures = await app.stats.metrics(most_tenants=2)
    named = [(one.tenant, one.queued, one.held) for one in figures.tenants]
    assert named == [("t4", 5, 0), ("t3", 4, 0), (None, 5, 1)]
    assert figures.tenants_paused == 1
    assert (await app.stats.metrics(most_tenants=0)).tenants == []


async def test_events_and_limits_of_a_handle_are_its_own(app: rota.App) -> None:
    acme, blue = app.tenant("acme"), app.tenant("blue")
    mine = (await acme.emit("order.paid", {"total": 7}, key="7", key_period=60)).event_id
    theirs = (await blue.emit("order.paid", {"total": 8}, hook="an ORM")).event_id
    assert mine is not None
    assert theirs is not None
    assert [one.id for one in await acme.events.list()] == [mine]
    assert (await acme.events.get(mine)).tenant == "acme"
    with pytest.raises(rota.EventNotFound):
        await acme.events.get(theirs)
    with pytest.raises(rota.FilterError):
        await acme.events.refusals()
    await blue.limits.set("calm", cap=3)
    assert await acme.limits.list() == []
    assert [one.tenant for one in await blue.limits.list()] == ["blue"]
    with pytest.raises(rota.LimitNotFound):
        await acme.limits.get("calm")
