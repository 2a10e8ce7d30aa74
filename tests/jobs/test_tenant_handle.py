"""`app.tenant(name)`: everything that the application has, kept to one tenant."""

from __future__ import annotations

import inspect
from typing import Any

import psycopg
import pytest

import rota
from rota.operations.commands import Command
from tests.conformance.test_tenants import HOSTILE, REFUSED


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(events=["order.paid"])
    async def send(n: int = 0) -> int:
        return n

    return app


def send_of(app: rota.App) -> Any:
    from rota.jobs.decorator import BoundJob
    from rota.jobs.options import NO_OPTIONS

    return BoundJob(app.registry.get("send"), app._enqueuer, NO_OPTIONS)


async def test_what_it_enqueues_is_its_own(jobs: rota.App) -> None:
    acme, send = jobs.tenant("acme"), send_of(jobs)
    one = await acme.enqueue(send, n=1)
    two = await acme.enqueue(send.options(delay=60), n=2)
    many = await acme.enqueue_many([send.call(n=3), send.options(tenant="acme").call(n=4)])
    emitted = await acme.emit("order.paid", {"n": 5})
    named = await acme.runs.enqueue("send", {"n": 6})
    by_event = await acme.events.emit("order.paid", {"n": 7})
    ids = {run.id for run in (one, two, *many, *emitted, named, *by_event)}
    assert {run.id for run in await acme.runs.list()} == ids
    assert {run.tenant for run in await jobs.runs.list()} == {"acme"}
    assert await jobs.tenant("blue").runs.list() == []


def test_for_sync_callers(jobs: rota.App) -> None:
    acme, send = jobs.tenant("acme"), send_of(jobs)
    runs = [
        acme.enqueue_sync(send, n=1), *acme.enqueue_many_sync([send.call(n=2)]),
        *acme.emit_sync("order.paid", {"n": 3}), acme.runs.sync.enqueue("send"),
    ]  # fmt: skip
    assert {run.id for run in acme.runs.sync.list()} == {run.id for run in runs}
    with pytest.raises(rota.RunNotFound):
        jobs.tenant("blue").runs.sync.get(runs[0].id)
    acme.schedule("sync", send, cron="@daily")
    assert [one.tenant for one in acme.schedules.sync.list()] == ["acme"]
    assert jobs.tenant("blue").schedules.sync.list() == []
    assert acme.set_sync(weight=2).weight == 2
    assert acme.pause_sync("unpaid") == 4
    assert acme.get_sync().is_paused
    assert acme.resume_sync() == 4
    assert acme.stats_sync().tenant.name == "acme"
    acme.unschedule("sync")
    jobs.close_sync()


async def test_another_tenants_run_is_not_found(jobs: rota.App) -> None:
    run = await jobs.tenant("acme").enqueue(send_of(jobs))
    blue = jobs.tenant("blue")
    for act in (
        blue.runs.get, blue.runs.cancel, blue.runs.details, blue.runs.retry, blue.runs.delete,
        blue.runs.handle, blue.runs.reopen, blue.runs.documents, blue.runs.children, blue.why,
        blue.logs.show, blue.runs.wait,
    ):  # fmt: skip
        with pytest.raises(rota.RunNotFound, match=f"there is no run {run.id}"):
            await act(run.id)
    result = await blue.runs.cancel_many([run.id])
    assert (result.done, result.items[0].reason) == (0, f"there is no run {run.id}")
    assert (await blue.runs.preview_many("cancel", [run.id])).groups == []
    info = await jobs.runs.get(run.id)
    assert info.state == "queued"
    with pytest.raises(rota.RunNotFound):
        await blue.runs.documents(info)
    assert (await jobs.tenant("acme").runs.cancel_many([run.id])).done == 1


async def test_schedules_audit_and_bulk_actions_are_its_own(jobs: rota.App) -> None:
    acme, blue = jobs.tenant("acme"), jobs.tenant("blue")
    await acme.schedules.create("sync", "send", cron="@daily")
    await blue.schedules.create("sync", "send", cron="@hourly")
    await acme.schedules.by("ada").pause("sync", "later")
    assert (await acme.schedules.get("sync")).cron == "@daily"
    assert (await blue.schedules.get("sync")).paused_at is None
    assert {one.tenant for one in await acme.audit.list()} == {"acme"}
    assert (await acme.why("sync")).reasons[0].code == "schedule_paused"
    await acme.enqueue(send_of(jobs))
    await blue.enqueue(send_of(jobs))
    action = await acme.bulk.start("cancel", states=["queued"])
    assert (await acme.bulk.carry_out(action.id)).done == 1
    assert [run.state for run in await blue.runs.list()] == ["queued"]
    with pytest.raises(rota.BulkActionNotFound):
        await blue.bulk.get(action.id)


async def test_it_speaks_for_nobody_else(jobs: rota.App) -> None:
    acme, send = jobs.tenant("acme"), send_of(jobs)
    with pytest.raises(rota.FilterError, match="handle of tenant 'acme', not 'blue'"):
        await acme.runs.list(tenant="blue")
    with pytest.raises(rota.InputError, match="handle of tenant 'acme', not 'blue'"):
        await acme.enqueue(send.options(tenant="blue"))
    with pytest.raises(rota.FilterError, match="page is not available per tenant"):
        await acme.bulk.page()
    with pytest.raises(rota.FilterError, match="remove is not available per tenant"):
        await acme.templates.remove("Hourly")
    assert await acme.runs.list(tenant="acme") == []


def test_every_command_says_how_it_keeps_to_a_tenant(jobs: rota.App) -> None:
    """A new one is refused by handles until its face says so: these are known to be."""
    acme = jobs.tenant("acme")
    refused = {
        "BulkActions": {"page"}, "Audit": {"get"},
        "Schedules": {"strips"},
        "Events": {"receive", "refuse", "refusals"}, "Templates": {"set", "remove"},
    }  # fmt: skip
    for face in (
        acme.runs,
        acme.bulk,
        acme.schedules,
        acme.logs,
        acme.events,
        acme.limits,
        acme.audit,
        acme.why,
        acme.templates,
    ):
        kind = type(face)
        commands = {n for n, it in inspect.getmembers_static(kind) if isinstance(it, Command)}
        scope = face.scope
        said = scope.takes | scope.of_run | scope.own | scope.shared
        assert commands - said == refused.get(kind.__name__, set()), kind.__name__
        assert said <= commands


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names(jobs: rota.App, name: str) -> None:
    tenant = jobs.tenant(name)
    run = await tenant.enqueue(send_of(jobs))
    await tenant.schedules.put("s", "send", cron="@daily")
    await tenant.pause("because")
    assert (await tenant.runs.get(run.id)).held_by == "tenant"
    assert (await tenant.why(run.id)).reasons[0].code == "tenant_paused"
    assert await tenant.resume() == 1
    (found,) = await jobs.tenants.list()
    assert (found.name, found.schedules) == (name, 1)


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_names(jobs: rota.App, name: str) -> None:
    with pytest.raises(rota.InputError, match="name of a tenant"):
        jobs.tenant(name)
    if name:
        with pytest.raises(rota.InputError, match="tenant"):
            send_of(jobs).options(tenant=name)
        with pytest.raises(rota.InputError, match="tenant"):
            jobs.schedule("s", "send", cron="@daily", tenant=name)
        with pytest.raises(rota.InputError, match="tenant"):
            await jobs.schedules.put("s", "send", cron="@daily", tenant=name)


async def test_what_the_handler_sees(jobs: rota.App, conn: psycopg.Connection[Any]) -> None:
    @jobs.job
    async def whose(ctx: rota.Context) -> str:
        ctx.log.info("seen")
        return ctx.tenant

    acme = jobs.tenant("acme")
    async with jobs.worker():
        run = await acme.enqueue(whose)
        assert await run.wait(timeout=20) == "acme"
        assert (await acme.runs.wait(run.id)).result == "acme"
    assert [line.message for line in (await acme.logs.search("seen")).lines] == ["seen"]
    assert (await jobs.tenant("blue").logs.search("seen")).lines == []
