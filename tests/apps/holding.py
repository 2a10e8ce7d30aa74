"""Jobs that hold on to what they run in."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time

from tests.apps.making import make_app

app = make_app()


@app.job(max_attempts=1)
async def hold_interpreter(seconds: int) -> int:
    """Keeps the GIL, as a long call into C does: no other thread of the process runs."""
    ctypes.PyDLL(None).sleep(seconds)
    return os.getpid()


@app.job(max_attempts=1, timeout=1)
async def hold_too_long() -> None:
    ctypes.PyDLL(None).sleep(600)


@app.job
async def sleep(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()


@app.job
async def hold_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - that is the point


@app.job(executor="process")
def hold_child(seconds: float) -> None:
    time.sleep(seconds)
