"""How often a worker looks by itself: less often while it rests, because then it is called.

A worker that hears calls and runs nothing is told of whatever it has to do; what it still asks is
for calls that were lost. Idle means quiet: all loops together ask about once a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable


class Pace:
    """`is_resting` answers whether this worker hears calls and has nothing to do."""

    def __init__(self, poll_seconds: float, is_resting: Callable[[], bool]) -> None:
        self._poll = poll_seconds
        self._is_resting = is_resting

    @property
    def is_resting(self) -> bool:
        return self._is_resting()

    def seconds(self, period: float, resting: float) -> float:
        """A period, and what it is at rest if `poll_seconds` is 1; quicker polls rest less. With
        jitter, so that a fleet started together does not ask together."""
        if not self._is_resting():
            return period
        return max(period, self.stretched(resting) * random.uniform(0.9, 1.1))

    def stretched(self, resting: float) -> float:
        return resting * min(1.0, self._poll)
