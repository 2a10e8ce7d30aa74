"""Hooks in every place, which say what they see."""

from __future__ import annotations

import contextvars
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import rota
from tests.apps.making import make_app

app = make_app()
seen: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("seen", default=())


@app.lifespan
async def asynchronous(application: rota.App) -> AsyncIterator[dict[str, Any]]:
    assert application is app
    print(f"lifespan begins {os.getpid()}", flush=True)
    yield {"client": f"client of {os.getpid()}"}
    print(f"lifespan ends {os.getpid()}", flush=True)


@app.lifespan
def synchronous() -> Iterator[dict[str, Any]]:
    yield {"pool": os.getpid()}


@app.around_attempt
def first(ctx: rota.Context) -> Iterator[None]:
    seen.set((*seen.get(), f"first {ctx.run_id}"))
    try:
        yield
    finally:
        ctx.log.info("left", hook="first")


@app.around_attempt
async def second(ctx: rota.Context) -> AsyncIterator[None]:
    seen.set((*seen.get(), f"second {ctx.run_id}"))
    try:
        yield
    except KeyError:
        raise rota.Cancel("by a hook") from None
    finally:
        ctx.log.info("left", hook="second")


def answer(ctx: rota.Context) -> dict[str, Any]:
    return {"seen": list(seen.get()), "pid": os.getpid(), **ctx.state}


@app.job
async def in_coroutine(ctx: rota.Context, key: str = "") -> dict[str, Any]:
    if key:
        raise KeyError(key)
    return answer(ctx)


@app.job
def in_thread(ctx: rota.Context, key: str = "") -> dict[str, Any]:
    if key:
        raise KeyError(key)
    return answer(ctx)


@app.job(executor="process")
def in_process(ctx: rota.Context, key: str = "") -> dict[str, Any]:
    if key:
        raise KeyError(key)
    return answer(ctx)


@app.job(executor="process")
async def in_process_coroutine(ctx: rota.Context, key: str = "") -> dict[str, Any]:
    if key:
        raise KeyError(key)
    return answer(ctx)


@app.job(max_attempts=3)
async def die_once(ctx: rota.Context) -> dict[str, Any]:
    """The second attempt runs in a process of its own."""
    if ctx.attempt == 1:
        os._exit(9)
    return answer(ctx)
