"""From a signal to the end of a program, in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any

from rota.runtime.processes.deadline import STOP_MARGIN, end_within
from rota.runtime.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Look for work now; not everywhere is there such a signal.
CALLS = tuple(one for one in signal.Signals if one.name == "SIGUSR1")
EXIT_LATE = 1


async def run_until_signal(worker: Worker) -> int:
    """Start the worker; stop it in order at the first SIGTERM or SIGINT. At the second one what
    still runs is cut off. Whatever hangs then, the process ends within its bounds. Answers the
    exit code. SIGUSR1 wakes a worker that sleeps."""
    asked = asyncio.Event()
    is_asked = is_started = False
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        """Not the event loop's own handler: the loop may stand still."""
        nonlocal is_asked
        if not is_started and worker.is_held_up:
            _die(signal.Signals(number))
        elif not is_asked:
            is_asked = True
            end_within(worker.shutdown_seconds + STOP_MARGIN, EXIT_LATE)
            loop.call_soon_threadsafe(asked.set)
        elif is_started:
            end_within(STOP_MARGIN, EXIT_LATE)
            loop.call_soon_threadsafe(worker.hurry)
        else:
            # Nothing has been claimed, and the start hangs, as on a database that is away.
            _die(signal.Signals(number))

    def on_call(_number: int, _frame: FrameType | None) -> None:
        """Somebody enqueued, and knows that the worker sleeps."""
        if is_started:
            worker.wake()

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    before |= {number: signal.signal(number, on_call) for number in CALLS}
    try:
        await worker.start()
        is_started = True
        await _either(asked.wait(), worker.wait_stopped())
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
