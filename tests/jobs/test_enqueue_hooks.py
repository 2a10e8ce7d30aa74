"""Hooks round enqueues."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

import rota
from rota.types import Call

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")


@pytest.fixture
def told(app: rota.App) -> list[Any]:
    """What a hook saw that adds metadata to every enqueue."""
    told: list[Any] = []

    @app.around_enqueue
    def add_request(calls: list[Call]) -> Iterator[None]:
        told.append([call.job for call in calls])
        calls[:] = [call.with_options(metadata={"request": request_id.get()}) for call in calls]
        runs = yield
        told.append([run.id for run in runs])

    return told


async def test_every_way_to_enqueue_goes_through_the_hooks(
    app: rota.App, told: list[Any], conn: psycopg.Connection[Any]
) -> None:
    @app.job
    async def send(n: int) -> None: ...

    request_id.set("r1")
    first = [await send.enqueue(1), await app.tenant("acme").enqueue(send, n=2)]
    first += [send.enqueue_sync(3), send.options(connection=conn).enqueue_sync(4)]
    many = await app.enqueue_many(send.call(n) for n in range(2))
    many_sync = app.enqueue_many_sync([send.call(7)])
    expected: list[Any] = []
    for run in first:
        expected += [["send"], [run.id]]
    expected += [["send"] * 2, [run.id for run in many], ["send"], [run.id for run in many_sync]]
    assert told == expected
    for run in (*first, *many, *many_sync):
        assert (await run.info()).metadata == {"request": "r1"}


async def test_async_hooks_are_awaited_and_refused_without_a_loop(app: rota.App) -> None:
    told = []

    @app.around_enqueue
    async def check(calls: list[Call]) -> AsyncIterator[None]:
        runs = yield
        told.append(runs)

    @app.job
    async def send(n: int) -> None: ...

    run = await send.enqueue(1)
    many = await app.enqueue_many([send.call(2)])
    assert told == [[run], many]
    with pytest.raises(rota.JobError, match="for which enqueue_sync cannot wait"):
        send.enqueue_sync(3)
    assert len(await app.runs.list()) == 2


async def test_a_hook_may_refuse_and_sees_what_fails(app: rota.App) -> None:
    told = []

    @app.around_enqueue
    def check(calls: list[Call]) -> Iterator[None]:
        if calls[0].options.priority == 0:
            raise PermissionError("not for you")
        if calls[0].options.priority == 9:
            calls.clear()
        try:
            yield
        except rota.QueueFull as error:
            told.append(type(error))
            if calls[0].options.priority == 1:
                return
            raise

    @app.job
    async def send(n: int) -> None: ...

    with pytest.raises(PermissionError):
        await send.options(priority=0).enqueue(1)
    with pytest.raises(rota.JobError, match="has made 0 calls of one"):
        send.options(priority=9).enqueue_sync(1)
    app.queue("full", max_waiting=1)
    await send.options(queue="full").enqueue(1)
    with pytest.raises(rota.QueueFull):
        await send.options(queue="full").enqueue(2)
    with pytest.raises(rota.JobError, match="so there is no run"):
        send.options(queue="full", priority=1).enqueue_sync(2)
    assert told == [rota.QueueFull] * 2
