"""Ends a process that has to stop, even if something hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rota.telemetry.logger import get_logger

# How long a worker may take beyond shutdown_seconds, for interrupted handlers and the last writes.
STOP_MARGIN = 20.0
_LOOK_SECONDS = 0.5


def end_within(seconds: float, exit_code: int) -> None:
    """End the process after this time. In a thread, because the event loop may be blocked."""
    _start(lambda: time.sleep(seconds), seconds, exit_code)


def end_with_parent(parent: int, seconds: float, exit_code: int) -> None:
    """End the process this long after its parent has ended; otherwise a child that hangs would
    never end."""

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
            # A process group of its own: processes that handlers started end too.
            with suppress(OSError):
                os.killpg(0, signal.SIGKILL)
        os._exit(exit_code)

    threading.Thread(target=run, name="rota deadline", daemon=True).start()
