"""Ends asyncio tasks reliably."""

from __future__ import annotations

import asyncio
import time

from rota.telemetry.logger import get_logger

_PATIENCE = 0.5
_LONGEST = 10.0
# Abandoned tasks, until they have ended.
_ABANDONED: set[asyncio.Task[None]] = set()


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel the task until it has ended.

    One cancellation is not enough: before Python 3.12 `asyncio.wait_for`, with which the driver
    waits for responses, drops a cancellation that arrives together with the response, and the task
    continues. A task that does not end within the limit is abandoned.
    """
    if task is None or task is asyncio.current_task():
        return
    deadline = time.monotonic() + _LONGEST
    while not task.done():
        if time.monotonic() > deadline:
            get_logger("worker").error("a task did not end and was abandoned", task=task.get_name())
            abandon(task)
            return
        task.cancel()
        await asyncio.wait((task,), timeout=_PATIENCE)
    _ask(task)


def abandon(task: asyncio.Task[None]) -> None:
    """Cancel the task without waiting for its end."""
    task.cancel()
    _ABANDONED.add(task)
    task.add_done_callback(_ABANDONED.discard)
    task.add_done_callback(_ask)


def _ask(task: asyncio.Task[None]) -> None:
    """Retrieve the exception, to avoid asyncio's "exception was never retrieved"."""
    if not task.cancelled():
        task.exception()
