"""Observers of attempts: tracing, and the shared page on which a supervisor sees timeouts."""

from __future__ import annotations

from typing import Protocol

from rota.engine.attempts.attempt import RunningAttempt
from rota.model.outcome import Outcome


class AttemptObserver(Protocol):
    """Both methods are called in the slot of the attempt, before its handler is prepared and after
    its end is handed on; each attempt that began ends."""

    def began(self, attempt: RunningAttempt) -> None: ...

    def ended(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        """`outcome` is None if nothing was written, because the run now belongs to another
        worker."""
