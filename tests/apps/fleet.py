"""What every release of the fault plans' application declares. Each run leaves one row in
`effects`, written together with its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any, Literal

import rota
from tests.apps.making import make_app

Release = Literal["old", "new"]
# Faults may cost a run many attempts; it is to end well all the same.
PATIENT: dict[str, Any] = {"max_attempts": 100}
EFFECT = "INSERT INTO public.effects (run, attempt) VALUES (%s, %s)"


async def pay(ctx: rota.Context, token: str = "") -> None:
    async with ctx.transaction() as conn:
        await conn.execute(EFFECT, [ctx.run_id, ctx.attempt])


async def pay_slowly(ctx: rota.Context, token: str) -> None:
    await asyncio.sleep(0.5)
    await pay(ctx, token)


async def pay_in_turn(ctx: rota.Context, token: str) -> None:
    await asyncio.sleep(0.3)
    await pay(ctx, token)


async def pay_as_agreed(ctx: rota.Context, token: str) -> None:
    await pay(ctx, token)


async def pay_as_agreed_anew(ctx: rota.Context, token: str, currency: str = "EUR") -> None:
    """The next release of it: what it is given, the one before cannot take."""
    await pay(ctx, token)


AGREED = {"old": pay_as_agreed, "new": pay_as_agreed_anew}


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


def declare(app: rota.App, only: str, release: Release) -> tuple[Any, Any]:
    """Answers the job that is enqueued most, and the one that differs between the releases. The
    schedule `agreed` differs too: that of the newer release stays, whoever starts."""
    for body in (pay_slowly, pay_after_failing, pay_in_turn, pay_in_thread):
        app.job(**PATIENT)(body)
    app.job(name=only, **PATIENT)(pay)
    app.job(max_attempts=3)(poison)
    agreed = app.job(name="pay_as_agreed", **PATIENT)(AGREED[release])
    app.schedule(
        "agreed", agreed, every=1, overlap="allow", payload={"token": ""}, description=release
    )
    return app.job(**PATIENT)(pay), agreed


def make_release(only: str, release: Release) -> rota.App:
    """An application of the same name whatever it declares beside the rest."""
    app = make_app(name="shop")
    declare(app, only, release)
    return app
