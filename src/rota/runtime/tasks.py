"""Ending asyncio tasks for certain."""

from __future__ import annotations

import asyncio

_PATIENCE = 0.5


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel it until it is over.

    Once is not enough: before Python 3.12 `asyncio.wait_for`, through which the driver waits for
    answers, drops a cancellation that comes in the moment of the answer, and the task goes on.
    """
    if task is None or task is asyncio.current_task():
        return
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_PATIENCE)
    if not task.cancelled():
        task.exception()  # asked for, so that nobody is told it never was
