"""A process that waits for a line, ticks until nothing is due, and ends."""

from __future__ import annotations

import asyncio
import sys

import rota
from rota.engine.loops.scheduler import Scheduler


async def main(url: str) -> None:
    async with rota.App(url) as app:
        await app.database.open()
        print("ready", flush=True)
        sys.stdin.readline()
        while await Scheduler(app.database, tick_seconds=1).tick():
            pass


asyncio.run(main(sys.argv[1]))
