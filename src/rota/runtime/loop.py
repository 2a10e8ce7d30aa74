"""What every background loop has in common: start, stop, wake-ups, and patience with errors."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from rota.runtime.tasks import end_task
from rota.telemetry.logging import get_logger

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


class Loop(ABC):
    """Calls `run_once` again and again. A test calls `run_once` without any loop."""

    name: str

    def __init__(self) -> None:
        self._log = get_logger(self.name)
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.on_turn: Callable[[str, bool], None] | None = None

    @abstractmethod
    async def run_once(self) -> float:
        """Do the work once; answer the seconds until it should be done again."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"rota {self.name}")

    def wake(self) -> None:
        """Do not wait any longer."""
        self._woken.set()

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                seconds = await self.run_once()
                pause = _FIRST_PAUSE
                self._say(is_well=True)
            except Exception as error:
                # The database may be away for a while; a loop that ends would never come back.
                self._log.warning(f"{self.name} failed, trying again", error=error, seconds=pause)
                seconds, pause = pause, min(pause * 2, _LONGEST_PAUSE)
                self._say(is_well=False)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            self._woken.clear()

    def _say(self, *, is_well: bool) -> None:
        """To whoever counts the turns."""
        if self.on_turn is not None:
            self.on_turn(self.name, is_well)
