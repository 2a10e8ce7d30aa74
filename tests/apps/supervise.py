"""A supervisor for tests: `python -m tests.apps.supervise module:attribute '{"setting": value}'`.

Starts `worker.processes` children of itself, each with a third argument.
"""

from __future__ import annotations

import asyncio
import importlib
import sys

import rota
from rota.runtime.shutdown import run_until_signal
from rota.runtime.supervisor import supervise
from rota.telemetry.logging import configure


async def run_worker(app: rota.App) -> None:
    await run_until_signal(app.worker(owns_process=True, app_ref=sys.argv[1]))
    await app.close()


def main() -> int:
    configure("info")
    module, _, attribute = sys.argv[1].partition(":")
    app: rota.App = getattr(importlib.import_module(module), attribute)
    if len(sys.argv) > 3:
        asyncio.run(run_worker(app))
        return 0
    return supervise(
        config=app.config,
        database=app.database,
        command=[sys.executable, "-m", "tests.apps.supervise", *sys.argv[1:], "child"],
        processes=app.config.worker.processes,
    )


if __name__ == "__main__":
    sys.exit(main())
