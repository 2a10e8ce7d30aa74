"""Jobs that need no help from a test."""

from __future__ import annotations

import asyncio

from tests.apps.making import make_app

app = make_app()


@app.job
async def add(a: int, b: int) -> int:
    return a + b


@app.job
async def which_loop() -> str:
    return type(asyncio.get_running_loop()).__module__
