"""Waits until the machine has nothing else to do, and says so when it does not come to that."""

from __future__ import annotations

import time

import psutil  # type: ignore[import-untyped]

_BUSY_PERCENT = 10.0
_LOOK_SECONDS = 0.5


class Quiet:
    """Looks before each measurement; remembers how busy the machine was when it gave up."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self.waits = 0
        self.given_up: list[float] = []

    def wait(self) -> None:
        """Until all cores together are idle for a moment, at most the limit."""
        if self.limit_seconds <= 0:
            return
        self.waits += 1
        limit = time.monotonic() + self.limit_seconds
        while (percent := psutil.cpu_percent(_LOOK_SECONDS)) > _BUSY_PERCENT:
            if time.monotonic() > limit:
                self.given_up.append(percent)
                return

    def note(self) -> str | None:
        if not self.given_up:
            return None
        share = sum(self.given_up) / len(self.given_up)
        return (
            f"The machine was busy with something else before {len(self.given_up)} of {self.waits} "
            f"measurements ({share:.0f} % of its cores): take the ratios with care."
        )
