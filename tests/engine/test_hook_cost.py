"""What a hook that does nothing costs an attempt."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rota
from rota.jobs.context import Context
from rota.model.inside import await_inside

ROUNDS, CALLS = 40, 2_000
# An empty coroutine takes 0.07 µs where a hook may take 2 µs; slower machines are slower in both.
MOST = 2 / 0.07


def around(ctx: rota.Context) -> Iterator[None]:
    yield


async def around_async(ctx: rota.Context) -> AsyncIterator[None]:
    yield


async def handler(n: int = 0) -> None: ...


async def _plainly() -> None:
    for _ in range(CALLS):
        await handler(n=1)


async def _inside(hooks: Any) -> None:
    """As the executor does, with the context that only the hook needs."""
    attempt: Any = object()
    for _ in range(CALLS):
        await await_inside(hooks, Context(attempt), handler, {"n": 1})


@pytest.mark.parametrize("hook", [around, around_async])
async def test_a_hook_that_does_nothing_takes_less_than_two_microseconds(
    app: rota.App, hook: Any
) -> None:
    """By the least CPU time of many rounds, which other processes do not change."""
    app.around_attempt(hook)
    hooks = app.hooks.around_attempt
    plain = inside = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        await _plainly()
        between = time.process_time()
        await _inside(hooks)
        plain = min(plain, between - started)
        inside = min(inside, time.process_time() - between)
    assert inside - plain < MOST * plain
