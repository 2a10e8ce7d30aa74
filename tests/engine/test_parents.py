"""Runs that a handler asks for remember which run asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually, run_due
from tests.workers import WorkerProcess


async def _asked_for(app: rota.App, run_id: int) -> list[tuple[str, str]]:
    return [(child.job, child.state) for child in await app.runs.children(run_id)]


async def test_from_async_handlers_and_threads(app: rota.App) -> None:
    @app.job
    async def leaf(n: int = 0) -> None: ...

    @app.job
    async def branch(ctx: rota.Context) -> None:
        await leaf.enqueue(1)
        await app.enqueue_many(leaf.call(n) for n in range(2))
        await leaf.options(priority=1).enqueue(4)
        async with ctx.transaction() as conn:
            await conn.execute("SELECT rota.enqueue('leaf', '{\"n\": 5}')")

    @app.job
    def thread() -> None:
        leaf.enqueue_sync(6)

    outside = await leaf.enqueue(9)
    first, second = await branch.enqueue(), await thread.enqueue()
    await run_due(app)
    assert (await app.runs.get(outside.id)).triggered_by == {"type": "code"}
    assert await _asked_for(app, first.id) == [("leaf", "succeeded")] * 5
    kinds = [
        (await app.runs.get(child.id)).triggered_by for child in await app.runs.children(first.id)
    ]
    assert kinds == [{"type": "code", "run": first.id}] * 4 + [{"type": "sql", "run": first.id}]
    assert await _asked_for(app, second.id) == [("leaf", "succeeded")]
    assert await _asked_for(app, outside.id) == []
    with pytest.raises(rota.RunNotFound):
        await app.runs.children(999)


async def test_by_an_event(app: rota.App) -> None:
    @app.job(events=["order.paid"])
    async def leaf() -> None: ...

    @app.job
    async def branch(ctx: rota.Context) -> None:
        await app.emit("order.paid")
        async with ctx.transaction() as conn:
            await app.emit("order.paid", connection=conn)
            await conn.execute("SELECT rota.emit('order.paid')")

    @app.job
    def thread() -> None:
        app.emit_sync("order.paid")

    (outside,) = await app.emit("order.paid")
    first, second = await branch.enqueue(), await thread.enqueue()
    await run_due(app)
    cause = {"type": "event", "event": "order.paid"}
    assert "run" not in (await app.runs.get(outside.id)).triggered_by
    for run, count in ((first, 3), (second, 1)):
        children = await app.runs.children(run.id)
        kinds = [(await app.runs.get(child.id)).triggered_by for child in children]
        assert [{key: it[key] for key in ("type", "event", "run")} for it in kinds] == [
            cause | {"run": run.id}
        ] * count


async def test_what_waits_is_found_too_and_the_next_run_is_another_one(app: rota.App) -> None:
    @app.job
    async def leaf() -> None: ...

    @app.job
    async def branch() -> None:
        await leaf.options(delay=3600).enqueue()

    runs = [await branch.enqueue() for _ in range(3)]
    await run_due(app)
    for run in runs:
        assert await _asked_for(app, run.id) == [("leaf", "scheduled")]


async def test_a_sql_job_asks_by_plain_sql(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "CREATE FUNCTION public.ask(payload jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS "
        "$$ SELECT jsonb_build_object('success', true, 'message', rota.enqueue('leaf')::text) $$"
    )
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('leaf')")
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name) VALUES ('ask', 'sql', 'public.ask')"
    )
    run = await app.runs.enqueue("ask")
    await run_due(app)
    (child,) = await app.runs.children(run.id)
    found = await app.runs.get(child.id)
    assert found.triggered_by == {"type": "sql", "run": run.id}


async def test_a_process_of_its_own(
    app: rota.App, worker_process: Callable[..., WorkerProcess]
) -> None:
    worker_process("tests.apps.parents:app")
    run = await app.runs.enqueue("ask_apart")

    async def is_there() -> bool:
        return await _asked_for(app, run.id) != []

    await eventually(is_there)
    assert [job for job, _ in await _asked_for(app, run.id)] == ["leaf"]


def test_an_odd_name_of_a_session_breaks_nothing(conn: psycopg.Connection[Any]) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('leaf')")
    for name in ("rota run x worker 1", "rota run ", "rota run 99999999999999999999", "else"):
        conn.execute("SELECT set_config('application_name', %s, false)", [name])
        (found,) = conn.execute("SELECT rota.sql_trigger()").fetchone() or ()
        assert found == {"type": "sql"}
        conn.execute("SELECT rota.enqueue('leaf')")
