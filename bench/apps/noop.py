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
