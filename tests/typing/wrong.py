"""What type checkers must refuse: every line marked `wrong`, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import rota

app = rota.App()


@app.job
async def send(ctx: rota.Context, user_id: int) -> str:
    return str(user_id)


@app.job
def add(a: int, b: int) -> int:
    return a + b


async def misuse() -> None:
    print(rota.does_not_exist)  # wrong
    await send.enqueue("seven")  # wrong
    await send.enqueue()  # wrong
    await send.enqueue(user_id=7, locale="en")  # wrong
    add.options(colour="red")  # wrong
    number: int = (await send.enqueue(7)).wait_sync()  # wrong
    await send(7)  # wrong
    add("1", 2)  # wrong
    done: Literal["done"] = (await app.runs.get(1)).state  # wrong
    print(number, done)
    print(app.task)  # wrong


@app.around_attempt  # wrong
def no_yield(ctx: rota.Context) -> None: ...


@app.lifespan  # wrong
def number() -> Iterator[int]:
    yield 7


@app.on_failure  # wrong
def one_argument(ctx: rota.Context) -> None: ...
