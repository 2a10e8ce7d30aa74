"""Acts on a worker's health: a worker whose loops do not work does not keep its lease
(docs/decisions/0023-failing-workers.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rota.engine.lease.health import Health, Trouble
from rota.telemetry.logger import get_logger

# Loops without which a worker is useless; and loops that work for the whole fleet, for which no run
# is interrupted.
_OWN_WORK = ("feeder", "end writer")
_FLEET_WORK = ("scheduler", "promoter", "rescuer")
# In units of `patience`: registering again did not help if the trouble returns within this time.
_SOON = 2


class Judged(Protocol):
    """The part of a worker that the judge uses."""

    @property
    def is_idle(self) -> bool: ...

    def restart(self, loop: str) -> None: ...

    def give_up(self) -> None:
        """Give up the lease, so that other workers take the runs, and register again."""

    def end_failing(self) -> None:
        """Stop, because registering again did not help."""


class HealthJudge:
    def __init__(
        self, health: Health, worker: Judged, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._health = health
        self._worker = worker
        self._gave_up_at: float | None = None
        self._log = get_logger("worker")

    def look(self) -> None:
        """Called regularly while the worker is registered."""
        for trouble in self._health.look():
            if trouble.loop not in _OWN_WORK and trouble.is_standing:
                self._begin_anew(trouble)
            if self._is_grave(trouble):
                self._act(trouble)
                return

    def _is_grave(self, trouble: Trouble) -> bool:
        if trouble.loop in _FLEET_WORK:
            return self._worker.is_idle
        return trouble.loop in _OWN_WORK

    def _act(self, trouble: Trouble) -> None:
        if self._is_no_help(trouble):
            text = "the worker is failing, and registering again did not help: stopping"
            self._log.critical(text, **_words(trouble))
            self._worker.end_failing()
        else:
            self._gave_up_at = self._clock()
            self._log.error("the worker is failing: registering again", **_words(trouble))
            self._worker.give_up()
        self._health.excuse()

    def _is_no_help(self, trouble: Trouble) -> bool:
        """Return whether the trouble began soon after the last registration. A good turn in between
        proves little: a worker that cannot write ends claims well until the first end, and then
        other workers cannot rescue its runs."""
        began = self._clock() - trouble.seconds
        at = self._gave_up_at
        return at is not None and began < at + _SOON * self._health.patience

    def _begin_anew(self, trouble: Trouble) -> None:
        self._log.error("a loop is stuck, restarting it", **_words(trouble))
        self._health.of(trouble.loop).failed(RuntimeError("it was stuck"))
        self._worker.restart(trouble.loop)


def _words(trouble: Trouble) -> dict[str, object]:
    return {"loop": trouble.loop, "seconds": round(trouble.seconds), "reason": trouble.reason}
