"""A task that loses a cancellation ends all the same."""

from __future__ import annotations

import asyncio

from rota.engine.tasks import end_task


async def test_a_lost_cancellation_is_repeated() -> None:
    started = asyncio.Event()
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while True:
            started.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                lost += 1
                if lost == 2:
                    raise

    task = asyncio.create_task(deaf())
    await started.wait()
    await end_task(task)
    assert task.cancelled()
    assert lost == 2


async def test_none_and_oneself_are_left_alone() -> None:
    await end_task(None)
    await end_task(asyncio.current_task())  # type: ignore[arg-type]
