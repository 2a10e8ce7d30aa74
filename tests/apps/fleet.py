"""What both releases of the fault plans' application declare. Each run leaves one row in
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


async def with_optional(ctx: rota.Context, token: str, currency: str = "EUR") -> None:
    """What it is given, the release before cannot take."""
    await pay(ctx, token)


async def with_required(ctx: rota.Context, token: str, currency: str) -> None:
    """What the release before was given, it can take only with `in_euros`."""
    await pay(ctx, token)


def in_euros(payload: dict[str, Any]) -> dict[str, Any]:
    return {"currency": "EUR", **payload}


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


def declare(app: rota.App, only: str, release: Release) -> list[Any]:
    """Answers the jobs that are enqueued, with the payload beside their token. `only` is a job of
    this release alone."""
    for body in (pay_slowly, pay_after_failing, pay_in_turn, pay_in_thread):
        app.job(**PATIENT)(body)
    app.job(name=only, **PATIENT)(pay)
    app.job(max_attempts=3)(poison)
    changed = declare_old(app) if release == "old" else declare_new(app)
    terms = {} if release == "old" else {"currency": "USD"}
    app.schedule(
        "agreed", changed[0], every=1, overlap="allow", payload={"token": "", **terms},
        description=release,
    )  # fmt: skip
    same = app.job(**PATIENT)(pay)
    return [(same, {}), *((job, terms) for job in changed), (declare_moved(app, release), {})]


def declare_old(app: rota.App) -> list[Any]:
    return [app.job(name=name, **PATIENT)(pay) for name in ("pay_as_agreed", "pay_in_full")]


def declare_new(app: rota.App) -> list[Any]:
    return [
        app.job(name="pay_as_agreed", **PATIENT)(with_optional),
        app.job(name="pay_in_full", upgrade=in_euros, **PATIENT)(with_required),
    ]


def declare_moved(app: rota.App, release: Release) -> Any:
    """A job that the new release calls by another name, with its schedule."""
    name, aliases = (
        ("pay_by_wire", ["pay_by_cheque"]) if release == "new" else ("pay_by_cheque", [])
    )
    schedules = [rota.every(1, overlap="allow", payload={"token": ""})]
    return app.job(name=name, aliases=aliases, schedules=schedules, **PATIENT)(pay)


def make_release(only: str, release: Release) -> rota.App:
    """An application of the same name whatever it declares beside the rest."""
    app = make_app(name="shop")
    declare(app, only, release)
    return app
