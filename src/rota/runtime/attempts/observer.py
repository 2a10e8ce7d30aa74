"""Observers of attempts: tracing, and the page on which a supervisor sees timeouts."""

from __future__ import annotations

from typing import Protocol

from rota.model.outcome import Outcome
from rota.runtime.attempts.attempt import RunningAttempt


class AttemptObserver(Protocol):
    """Both are called in the slot of the attempt, before its body is prepared and after its end is
    handed on; each attempt that began ends."""

    def began(self, attempt: RunningAttempt) -> None: ...

    def ended(self, attempt: RunningAttempt, outcome: Outcome | None) -> None:
        """None: nothing was written, as the run belongs to somebody else by now."""
