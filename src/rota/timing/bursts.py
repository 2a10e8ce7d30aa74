"""Where a schedule starts that is due together with many others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

# So many of one instant start on time, and each second so many more while that fits.
AT_ONCE = 10


class Place(msgspec.Struct, frozen=True):
    """A schedule's place, from 0, among the `crowd` that is due at one instant, all of which are to
    have started within `seconds`."""

    number: int
    crowd: int
    seconds: float

    def shift(self, until_next: timedelta | None) -> timedelta:
        """How much later it starts: nothing for the first ones, and at most half of the time until
        it is due again, else a short interval would get in its own way."""
        spread = self.crowd - AT_ONCE
        if self.number < AT_ONCE or spread <= 0:
            return timedelta()
        window = min(self.seconds, spread / AT_ONCE)
        if until_next is not None:
            window = min(window, max(0.0, until_next.total_seconds() / 2))
        share = min(1.0, (self.number - AT_ONCE + 1) / spread)
        return timedelta(seconds=window * share)

    def to_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"burst": {"place": self.number + 1, "of": self.crowd}}
