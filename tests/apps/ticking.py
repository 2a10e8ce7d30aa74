"""A worker that only ticks. ROTA_CHAOS names what happens to it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from rota.engine.loops.scheduler import Scheduler
from tests.apps.making import make_app

app = make_app()


@app.job
async def work() -> None:
    return None


async def _die_instead(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _wrong_clock() -> None:
    """As on a host whose clock is an hour ahead; monotonic clocks do not know."""
    right = time.time
    time.time = lambda: right() + 3600


match os.environ.get("ROTA_CHAOS"):
    case "before the write":
        Scheduler._write = _die_instead  # type: ignore[method-assign]
    case "an hour ahead":
        _wrong_clock()
