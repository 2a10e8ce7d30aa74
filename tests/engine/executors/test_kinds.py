"""What every kind of executor promises, and that each name has one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import rota
from rota.engine.attempts.attempt import RunningAttempt, Stop
from rota.engine.executors.base import (
    CallOutcome,
    CommittedItself,
    Executor,
    Lost,
    NotBegun,
    Returned,
)
from rota.engine.executors.child_pool import ChildPool
from rota.engine.executors.isolated import IsolatedExecutor
from rota.engine.executors.kinds import KINDS
from rota.engine.executors.remote import ChildDied
from rota.jobs.job_arguments import EXECUTORS
from tests.engine.attempts.parts import claim_of, make_means, make_services
from tests.engine.executors import handlers

# In a process of its own a coroutine and a function are called alike.
CALLS = [
    ("async", handlers.add_later, '{"sum":5}'),
    ("thread", handlers.add, "5"),
    ("process", handlers.add, "5"),
    ("process", handlers.add_later, '{"sum":5}'),
    ("isolated", handlers.add, "5"),
    ("isolated", handlers.add_later, '{"sum":5}'),
]
PYTHON = ("async", "thread", "process", "isolated")


class Kinds:
    """The executors, and attempts for them to call."""

    def __init__(self, app: rota.App) -> None:
        self._app = app
        self._means = make_means(app)
        self._made: dict[str, Executor] = {}
        self._attempts: list[RunningAttempt] = []

    def __getitem__(self, kind: str) -> Executor:
        if kind not in self._made:
            self._made[kind] = KINDS[kind](self._means)
        return self._made[kind]

    async def call(
        self, kind: str, function: Callable[..., Any], payload: dict[str, Any] | None = None
    ) -> CallOutcome:
        return await self[kind].call(self.attempt(kind, function, payload))

    def attempt(
        self, kind: str, function: Callable[..., Any], payload: dict[str, Any] | None = None
    ) -> RunningAttempt:
        job = self._app.job(name=f"{kind} {function.__name__}")(function)
        task = asyncio.current_task()
        assert task is not None
        attempt = RunningAttempt(
            claim_of(job, payload), job.definition, 1, None, make_services(self._app), task
        )
        if self[kind].is_bound:
            attempt.bind()
        self._attempts.append(attempt)
        return attempt

    async def close(self) -> None:
        for attempt in self._attempts:
            if attempt.transaction is not None:
                await attempt.transaction.close()
        for executor in self._made.values():
            await executor.close()


@pytest.fixture
async def kinds(app: rota.App) -> AsyncIterator[Kinds]:
    kinds = Kinds(app)
    yield kinds
    await kinds.close()


def test_every_executor_that_a_job_may_name_is_there() -> None:
    assert set(EXECUTORS) <= set(KINDS)
    assert set(KINDS) - set(EXECUTORS) == {"isolated", "sql"}


@pytest.mark.parametrize(("kind", "function", "expected"), CALLS)
async def test_a_result_comes_as_json(
    kinds: Kinds, kind: str, function: Callable[..., Any], expected: str
) -> None:
    assert await kinds.call(kind, function, {"a": 2, "b": 3}) == Returned(expected)


async def _return_nothing() -> None: ...


@pytest.mark.parametrize("kind", PYTHON)
async def test_no_result_is_none(kinds: Kinds, kind: str) -> None:
    function = _return_nothing if kind == "async" else handlers.nothing
    assert await kinds.call(kind, function) == Returned(None)


async def _fail() -> None:
    raise KeyError("kind")


def _fail_in_thread() -> None:
    raise KeyError("kind")


@pytest.mark.parametrize("kind", PYTHON)
async def test_what_the_body_raises_leaves_the_call(kinds: Kinds, kind: str) -> None:
    function = _fail if kind == "async" else _fail_in_thread
    with pytest.raises(KeyError, match="kind"):
        await kinds.call(kind, function)


async def test_a_child_that_died_is_the_failure_of_its_run(kinds: Kinds) -> None:
    with pytest.raises(ChildDied):
        await kinds.call("process", handlers.kill, {"number": signal.SIGKILL})


async def test_an_isolated_one_is_lost(kinds: Kinds) -> None:
    found = await kinds.call("isolated", handlers.kill, {"number": signal.SIGKILL})
    assert isinstance(found, Lost)
    assert isinstance(found.error, ChildDied)


async def test_without_a_process_an_isolated_one_is_not_begun(
    kinds: Kinds, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: ChildPool) -> None:
        raise OSError("no room")

    monkeypatch.setattr(ChildPool, "prepare", fail)
    executor = kinds["isolated"]
    assert isinstance(executor, IsolatedExecutor)
    assert executor.may_start
    found = await kinds.call("isolated", handlers.nothing)
    assert found == NotBegun("a separate process could not be started: no room")
    assert not executor.may_start


async def _write(ctx: rota.Context) -> int:
    async with ctx.transaction() as conn:
        await conn.execute("SELECT 1")
    return 1


def _write_in_thread(ctx: rota.Context) -> int:
    with ctx.transaction_sync() as conn:
        conn.execute("SELECT 1")
    return 1


@pytest.mark.parametrize(("kind", "function"), [("async", _write), ("thread", _write_in_thread)])
async def test_a_transaction_completes_the_run_or_says_that_it_is_not_ours(
    app: rota.App, kinds: Kinds, kind: str, function: Callable[..., Any]
) -> None:
    await app.database.open()
    with pytest.raises(rota.LeaseLost):
        await kinds.call(kind, function)


@pytest.mark.parametrize(("kind", "function"), [("async", _write), ("thread", _write_in_thread)])
async def test_what_is_stopped_completes_nothing(
    app: rota.App, kinds: Kinds, kind: str, function: Callable[..., Any]
) -> None:
    await app.database.open()
    attempt = kinds.attempt(kind, function)
    attempt.stop = Stop("cancel", "ann")
    try:
        found = await kinds[kind].call(attempt)
    except asyncio.CancelledError:
        found = None
    assert not isinstance(found, CommittedItself)
    assert attempt.transaction is not None
