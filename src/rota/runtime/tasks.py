"""Ending asyncio tasks for certain."""

from __future__ import annotations

import asyncio
import time

from rota.telemetry.logger import get_logger

_PATIENCE = 0.5
_LONGEST = 10.0
# Tasks that nobody waits for any more, until they have ended.
_ABANDONED: set[asyncio.Task[None]] = set()


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel it until it is over.

    Once is not enough: before Python 3.12 `asyncio.wait_for`, through which the driver waits for
    answers, drops a cancellation that comes in the moment of the answer, and the task goes on.
    But not for ever: what does not end is left behind.
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
    """Nobody waits for it any more."""
    task.cancel()
    _ABANDONED.add(task)
    task.add_done_callback(_ABANDONED.discard)
    task.add_done_callback(_ask)


def _ask(task: asyncio.Task[None]) -> None:
    """So that nobody is told that its error was never asked for."""
    if not task.cancelled():
        task.exception()
