"""Runs a program until a signal, and shuts it down in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any

from rota.engine.processes.deadline import STOP_MARGIN, end_within
from rota.engine.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Wakes a worker; not every platform has such a signal.
CALLS = tuple(number for number in signal.Signals if number.name == "SIGUSR1")
EXIT_LATE = 1


async def run_until_signal(worker: Worker) -> int:
    """Start the worker; stop it in order at the first SIGTERM or SIGINT. At the second one
    interrupt running attempts. The process ends within its time limits, whatever hangs. Return the
    exit code. SIGUSR1 wakes a worker that sleeps."""
    stop_requested = asyncio.Event()
    is_stopping = is_started = False
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        """Handle a signal outside of the event loop, which may be blocked."""
        nonlocal is_stopping
        if not is_started and worker.is_held_up:
            _die(signal.Signals(number))
        elif not is_stopping:
            is_stopping = True
            end_within(worker.shutdown_seconds + STOP_MARGIN, EXIT_LATE)
            loop.call_soon_threadsafe(stop_requested.set)
        elif is_started:
            end_within(STOP_MARGIN, EXIT_LATE)
            loop.call_soon_threadsafe(worker.hurry)
        else:
            # Nothing has been claimed, and the start hangs, for example because the database is
            # unavailable.
            _die(signal.Signals(number))

    def on_call(_number: int, _frame: FrameType | None) -> None:
        """Wake the worker for a run that was just enqueued."""
        if is_started:
            worker.wake()

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    before |= {number: signal.signal(number, on_call) for number in CALLS}
    try:
        await worker.start()
        is_started = True
        await _either(stop_requested.wait(), worker.wait_stopped())
        await worker.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return worker.exit_code


async def _either(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _die(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
