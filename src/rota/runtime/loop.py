"""What every background loop has in common: start, stop, wake-ups, and patience with errors."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from rota.runtime.lease.health import Turns
from rota.runtime.pace import Pace
from rota.runtime.tasks import abandon, end_task
from rota.telemetry.logger import get_logger

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
# How long a patient loop lets a backlog go first, and how often it looks.
_PATIENT_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class Loop(ABC):
    """Calls `run_once` again and again. A test calls `run_once` without any loop."""

    name: str
    # What one turn may take beyond what is taken for a standstill.
    long_seconds = 0.0
    # Nobody waits for what it does: a backlog of short runs goes first, for a while.
    is_patient = False

    def __init__(self) -> None:
        self._log = get_logger(self.name)
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.on_turn: Callable[[str, bool], None] | None = None
        self.turns: Turns | None = None
        self.has_backlog: Callable[[], bool] = lambda: False
        self.pace: Pace | None = None
        # Of the last turn: what failed in it, while the rest of it was done.
        self.fault: Exception | None = None

    @abstractmethod
    async def run_once(self) -> float:
        """Do the work once; answer the seconds until it should be done again."""

    def pause(self, period: float, resting: float) -> float:
        """The seconds until the next turn, if nobody calls: see `Pace.seconds`."""
        return period if self.pace is None else self.pace.seconds(period, resting)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"rota {self.name}")

    def goes_on(self) -> None:
        """Within a long turn: this much is done, and it is no standstill."""
        if self.turns is not None:
            self.turns.begin()

    def wake(self) -> None:
        """Do not wait any longer."""
        self._woken.set()

    def restart(self) -> None:
        """Its turn does not end: leave it behind, and begin another one."""
        if self._task is not None:
            abandon(self._task)
            self.start()

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)
        if self.turns is not None:
            self.turns.forget()

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            if self.is_patient:
                await self._let_pass()
            try:
                if self.turns is not None:
                    self.turns.begin()
                self.fault = None
                seconds = await self.run_once()
                pause = _FIRST_PAUSE
                self._count(self.fault)
            except Exception as error:
                # The database may be away for a while; a loop that ends would never come back.
                self._say(error)
                seconds, pause = pause, min(pause * 2, _LONGEST_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            self._woken.clear()

    async def _let_pass(self) -> None:
        limit = time.monotonic() + _PATIENT_SECONDS
        while self.has_backlog() and time.monotonic() < limit:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    def _say(self, error: Exception) -> None:
        if self._count(error):
            self._log.warning(f"{self.name} failed, retrying", error=error)

    def _count(self, error: Exception | None) -> bool:
        """For whoever counts the turns, and judges them. Returns whether to speak of an error."""
        if self.on_turn is not None:
            self.on_turn(self.name, error is None)
        if error is None:
            if self.turns is not None:
                self.turns.went_well()
            return False
        return self.turns is None or self.turns.failed(error)
