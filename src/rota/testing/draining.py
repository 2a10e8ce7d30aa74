"""Run what is due, in the test's own process."""

from __future__ import annotations

import asyncio
from typing import Any

from rota.app import App
from rota.store.plans import Ask, Plan
from rota.testing.patience import eventually


async def drain(app: App, timeout: float = 30.0) -> None:
    """Run everything that is due now, what those runs enqueue too, until nothing is left; then
    stop. What waits for a later time stays: `Clock.advance`, then drain again."""

    async def nothing_left() -> None:
        left = await app.database.run(_left(app.registry.names()))
        assert not left, f"still to run: {left}"

    async with app.worker():
        await eventually(nothing_left, timeout)


def drain_sync(app: App, timeout: float = 30.0) -> None:
    """The same for tests without an event loop."""

    async def run() -> None:
        try:
            await drain(app, timeout)
        finally:
            # The pools belong to this short-lived loop; the next use opens them again.
            await app.runs.close()
            await app.database.close()

    asyncio.run(run())


def _left(jobs: list[str]) -> Plan[list[dict[str, Any]]]:
    rows = yield Ask("testing/left_to_run", {"jobs": jobs})
    return list(rows)
