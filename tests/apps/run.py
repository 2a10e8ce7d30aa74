"""A worker process for tests: `python -m tests.apps.run module:attribute '{"setting": value}'`.

The database comes from ROTA_TEST_DATABASE. SIGTERM stops in order, a second one hurries.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from typing import Any

import rota
from rota.runtime.worker import Worker


def make_app(settings: dict[str, Any] | None = None) -> rota.App:
    """The application that the modules beside this one declare their jobs on."""
    given = settings if settings is not None else json.loads(sys.argv[2])
    config = rota.Config.load(
        env={}, unchecked=given, database_url=os.environ["ROTA_TEST_DATABASE"]
    )
    return rota.App(config=config)


async def run(app: rota.App, app_ref: str) -> None:
    worker = app.worker(owns_process=True, app_ref=app_ref)
    stopping: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: _stop(worker, stopping))
    await worker.start()
    await worker.wait_stopped()
    await app.close()


def _stop(worker: Worker, stopping: list[asyncio.Task[None]]) -> None:
    if stopping:
        worker.hurry()
    else:
        stopping.append(asyncio.ensure_future(worker.stop()))


if __name__ == "__main__":
    module, _, attribute = sys.argv[1].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    asyncio.run(run(found, sys.argv[1]))
