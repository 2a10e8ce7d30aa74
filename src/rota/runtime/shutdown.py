"""From a signal to the end of a program, in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

from rota.runtime.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_until_signal(worker: Worker) -> None:
    """Start the worker; stop it in order at the first SIGTERM or SIGINT. At the second one what
    still runs is cut off."""
    asked = asyncio.Event()
    is_started = False

    def on_signal(number: signal.Signals) -> None:
        if not asked.is_set():
            asked.set()
        elif is_started:
            worker.hurry()
        else:
            # Nothing has been claimed, and the start hangs, as on a database that is away.
            _die(number)

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        await worker.start()
        is_started = True
        await _either(asked.wait(), worker.wait_stopped())
        await worker.stop()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


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
