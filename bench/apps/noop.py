"""Jobs that do nothing, one for each way of calling a body."""

from __future__ import annotations

import os

import rota
from bench.programs.marks import LIMIT, mark

app = rota.App(os.environ.get("BENCH_URL"))


@app.job()
async def noop(n: int) -> None:
    if n <= LIMIT:
        mark(n)


@app.job()
def noop_thread(n: int) -> None:
    if n <= LIMIT:
        mark(n)


@app.job(executor="process")
def noop_process(n: int) -> None:
    if n <= LIMIT:
        mark(n)


@app.job()
async def noop_context(ctx: rota.Context, n: int) -> None:
    if n <= LIMIT:
        mark(n)


@app.job()
async def noop_line(ctx: rota.Context, n: int) -> None:
    ctx.log.info("done", n=n)
    if n <= LIMIT:
        mark(n)


@app.job()
async def talk(ctx: rota.Context, n: int) -> None:
    """A thousand lines."""
    for i in range(1000):
        ctx.log.info("line", i=i)
    if n <= LIMIT:
        mark(n)
