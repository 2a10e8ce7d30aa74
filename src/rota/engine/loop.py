"""The base of background loops: start, stop, wake-ups, and retries after errors."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from rota.engine.lease.health import Turns
from rota.engine.pace import Pace
from rota.engine.tasks import abandon, end_task
from rota.telemetry.logger import get_logger

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
# How long a patient loop waits for a backlog to end, and how often it checks.
_PATIENT_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class Loop(ABC):
    """Calls `run_once` repeatedly. Tests call `run_once` directly."""

    name: str
    # How much longer than usual a turn may take before it counts as stuck.
    long_seconds = 0.0
    # Nothing waits for this loop: a backlog of short runs goes first, for a while.
    is_patient = False

    def __init__(self) -> None:
        self._log = get_logger(self.name)
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.on_turn: Callable[[str, bool], None] | None = None
        self.turns: Turns | None = None
        self.has_backlog: Callable[[], bool] = lambda: False
        self.pace: Pace | None = None
        # The error of a part of the last turn; the rest of the turn was done.
        self.fault: Exception | None = None

    @abstractmethod
    async def run_once(self) -> float:
        """Do the work once; return the seconds until the next turn."""

    def pause(self, period: float, resting: float) -> float:
        """Return the seconds until the next turn if no call arrives: see `Pace.seconds`."""
        return period if self.pace is None else self.pace.seconds(period, resting)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"rota {self.name}")

    def goes_on(self) -> None:
        """Report progress within a long turn, so that it does not count as stuck."""
        if self.turns is not None:
            self.turns.begin()

    def wake(self) -> None:
        """Start the next turn now."""
        self._woken.set()

    def restart(self) -> None:
        """The turn is stuck: abandon it, and start another one."""
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
                # The database may be unavailable for a while; a loop that ended would not be
                # restarted.
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
        """Count the turn and report its result. Return whether to log the error."""
        if self.on_turn is not None:
            self.on_turn(self.name, error is None)
        if error is None:
            if self.turns is not None:
                self.turns.went_well()
            return False
        return self.turns is None or self.turns.failed(error)
