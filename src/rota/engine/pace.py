"""How often the loops of a worker poll: less often while it is idle, because then calls arrive.

An idle worker is called for everything it has to do; it polls only for calls that were lost. All
loops of an idle worker together send about one query per second.
"""

from __future__ import annotations

import random
from collections.abc import Callable


class Pace:
    """`is_resting` returns whether this worker receives calls and has nothing to do."""

    def __init__(self, poll_seconds: float, is_resting: Callable[[], bool]) -> None:
        self._poll = poll_seconds
        self._is_resting = is_resting

    @property
    def is_resting(self) -> bool:
        return self._is_resting()

    def seconds(self, period: float, resting: float) -> float:
        """Returns `period`; at rest `resting`, which applies to a `poll_seconds` of 1 and is
        shorter for quicker polls. With jitter, so that workers started together do not poll
        together."""
        if not self._is_resting():
            return period
        return max(period, self.stretched(resting) * random.uniform(0.9, 1.1))

    def stretched(self, resting: float) -> float:
        return resting * min(1.0, self._poll)
