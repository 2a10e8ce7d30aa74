from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import rota
from rota.testing import (
    Clock,
    assert_enqueued,
    eventually,
    eventually_sync,
    run_due,
    run_due_sync,
)
from tests.workers import WorkerProcess


async def test_drain_runs_what_is_due_and_what_that_enqueues(app: rota.App) -> None:
    seen: list[int] = []

    @app.job
    async def count_down(n: int) -> None:
        seen.append(n)
        if n:
            await count_down.enqueue(n=n - 1)

    await count_down.enqueue(n=2)
    await count_down.options(delay=3600).enqueue(n=9)
    await run_due(app)
    assert seen == [2, 1, 0]


async def test_the_clock_makes_later_runs_due(app: rota.App, clock: Clock) -> None:
    seen: list[str] = []

    @app.job
    async def note(what: str) -> None:
        seen.append(what)

    await note.options(delay=3600).enqueue(what="later")
    await run_due(app)
    assert seen == []
    clock.advance(3601)
    await run_due(app)
    assert seen == ["later"]


async def test_the_clock_can_be_set_and_reset(clock: Clock) -> None:
    at = datetime(2031, 5, 1, tzinfo=UTC)
    assert clock.set(at) == at
    assert clock.now().year == 2031
    clock.reset()
    assert clock.now().year != 2031
    with pytest.raises(ValueError, match="time zone"):
        clock.set(datetime(2031, 5, 1))  # noqa: DTZ001 - the point of the test


def test_drain_without_a_loop(app: rota.App) -> None:
    seen: list[int] = []

    @app.job(executor="thread")
    def note(n: int) -> None:
        seen.append(n)

    note.enqueue_sync(n=1)
    run_due_sync(app)
    note.enqueue_sync(n=2)
    run_due_sync(app)
    assert seen == [1, 2]


async def test_assert_enqueued_finds_by_every_field(app: rota.App) -> None:
    @app.job(queue="mail")
    async def send(user: int, locale: str = "en") -> None: ...

    run = await send.options(key="a", priority=1).enqueue(user=7)
    await send.enqueue(user=8)
    assert [it.id for it in assert_enqueued(app, send, payload={"user": 7}, queue="mail")] == [
        run.id
    ]
    assert_enqueued(app, "send", count=2)
    assert_enqueued(app, send, key="a", priority=1, state="queued", count=1)
    with pytest.raises(AssertionError, match="expected at least one run of send"):
        assert_enqueued(app, send, payload={"user": 9})
    with pytest.raises(AssertionError, match="found 2"):
        assert_enqueued(app, send, count=1)
    with pytest.raises(TypeError, match="no field 'colour'"):
        assert_enqueued(app, send, colour="red")


async def test_eventually_says_what_was_wrong() -> None:
    def fails() -> None:
        raise AssertionError("still three")

    with pytest.raises(AssertionError, match="still three"):
        await eventually(fails, timeout=0.01)
    with pytest.raises(AssertionError, match="check was False"):
        eventually_sync(lambda: False, timeout=0.01)
    assert await eventually(lambda: 5) == 5


async def test_a_worker_process_runs_jobs(
    app: rota.App, worker_process: Callable[..., WorkerProcess]
) -> None:
    worker = worker_process("tests.apps.basic:app")

    @app.job
    async def add(a: int, b: int) -> int: ...

    run = await add.enqueue(a=1, b=2)
    assert await run.wait(timeout=20) == 3
    worker.terminate()
    assert worker.wait() == 0
