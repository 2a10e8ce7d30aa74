"""The last resort of a process that has to end: it ends even if something hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rota.telemetry.logger import get_logger

# What a worker may take beyond shutdown_seconds: bodies that were cut off, the last writes.
STOP_MARGIN = 20.0
_LOOK_SECONDS = 0.5


def end_within(seconds: float, exit_code: int) -> None:
    """From now on. A thread, because the event loop may stand still."""
    _start(lambda: time.sleep(seconds), seconds, exit_code)


def end_with_parent(parent: int, seconds: float, exit_code: int) -> None:
    """So long after the parent has gone: a child that hangs would live on for ever."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        time.sleep(seconds)

    _start(wait, seconds, exit_code)


def _start(wait: Callable[[], None], seconds: float, exit_code: int) -> None:
    def run() -> None:
        wait()
        get_logger("worker").critical("ending this process: it did not stop", seconds=seconds)
        if os.getpgrp() == os.getpid():
            # A group of its own: what its handlers started ends with it.
            with suppress(OSError):
                os.killpg(0, signal.SIGKILL)
        os._exit(exit_code)

    threading.Thread(target=run, name="rota deadline", daemon=True).start()
