"""What follows from a worker's health: a worker that does not get its work done does not keep its
lease (docs/decisions/0023-failing-workers.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from rota.runtime.health import Health, Trouble
from rota.telemetry.logging import get_logger

# A worker's own work, without which it is of no use; and what it does for the whole fleet, for
# which nobody's run is cut off.
_OWN_WORK = ("feeder", "end writer")
_FLEET_WORK = ("scheduler", "promoter", "rescuer")


class Judged(Protocol):
    """A worker, as far as it is judged."""

    @property
    def is_idle(self) -> bool: ...

    def restart(self, loop: str) -> None: ...

    def give_up(self) -> None:
        """Its identity: others take what it holds, and it comes back as a new one."""

    def end_failing(self) -> None:
        """A new identity did not help."""


class Judge:
    def __init__(
        self, health: Health, worker: Judged, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._health = health
        self._worker = worker
        self._gave_up_for: dict[str, float] = {}
        self._log = get_logger("worker")

    def look(self) -> None:
        """Every so often, while there is an identity."""
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
        at = self._gave_up_for.get(trouble.loop)
        if at is None or self._health.of(trouble.loop).is_well_since(at):
            self._gave_up_for[trouble.loop] = self._clock()
            self._log.error("live but failing: giving up this identity", **_words(trouble))
            self._worker.give_up()
        else:
            text = "live but failing, and a new identity did not help: stopping"
            self._log.critical(text, **_words(trouble))
            self._worker.end_failing()
        self._health.excuse()

    def _begin_anew(self, trouble: Trouble) -> None:
        self._log.error("a loop stands still, beginning anew", **_words(trouble))
        self._health.of(trouble.loop).failed(RuntimeError("it stood still"))
        self._worker.restart(trouble.loop)


def _words(trouble: Trouble) -> dict[str, object]:
    return {"loop": trouble.loop, "seconds": round(trouble.seconds), "reason": trouble.reason}
