"""Spreads the starts of schedules that are due at the same time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

# This many schedules of one instant start on time, and this many more in each second, as far as the
# period allows.
AT_ONCE = 10


class BurstPlace(msgspec.Struct, frozen=True):
    """A schedule's place, from 0, among the `crowd` that is due at one instant, all of which are to
    start within `seconds`."""

    number: int
    crowd: int
    seconds: float

    def shift(self, until_next: timedelta | None) -> timedelta:
        """Return how much later the schedule starts: zero for the first ones, and at most half of
        the time until it is due again, so that a short interval does not overlap itself."""
        spread = self.crowd - AT_ONCE
        if self.number < AT_ONCE or spread <= 0:
            return timedelta()
        window = min(self.seconds, spread / AT_ONCE)
        if until_next is not None:
            window = min(window, max(0.0, until_next.total_seconds() / 2))
        share = min(1.0, (self.number - AT_ONCE + 1) / spread)
        return timedelta(seconds=window * share)

    def to_json(self) -> dict[str, Any]:
        """Return the details for the ledger."""
        return {"burst": {"place": self.number + 1, "of": self.crowd}}
