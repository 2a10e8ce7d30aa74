"""What every release of the fault plans' application declares. Each run leaves one row in
`effects`, written together with its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import rota
from tests.apps.making import make_app

# Faults may cost a run many attempts; it is to end well all the same.
PATIENT: dict[str, Any] = {"max_attempts": 100}
EFFECT = "INSERT INTO public.effects (run, attempt) VALUES (%s, %s)"


async def pay(ctx: rota.Context, token: str = "") -> None:
    async with ctx.transaction() as conn:
        await conn.execute(EFFECT, [ctx.run_id, ctx.attempt])


async def pay_slowly(ctx: rota.Context, token: str) -> None:
    await asyncio.sleep(0.5)
    await pay(ctx, token)


async def pay_after_failing(ctx: rota.Context, token: str) -> None:
    if ctx.attempt == 1:
        raise RuntimeError("the bank is closed")
    await pay(ctx, token)


def pay_in_thread(ctx: rota.Context, token: str) -> None:
    time.sleep(0.02)
    with ctx.transaction_sync() as conn:
        conn.execute(EFFECT, [ctx.run_id, ctx.attempt])


def poison(token: str) -> None:
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def declare(app: rota.App, *only: str) -> Any:
    """Answers the job that is enqueued most."""
    for body in (pay_slowly, pay_after_failing, pay_in_thread):
        app.job(**PATIENT)(body)
    for name in only:
        app.job(name=name, **PATIENT)(pay)
    app.job(max_attempts=3)(poison)
    return app.job(**PATIENT)(pay)


def make_release(*only: str) -> rota.App:
    """An application of the same name whatever it declares beside the rest."""
    app = make_app(name="shop")
    declare(app, *only)
    return app
