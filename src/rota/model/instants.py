"""Instants that every reader can hold, in every time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

# A day off at both ends, as in SQL (rota.is_instant): the years 1 to 9999 wherever one is.
FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)
SUPPORTED: Final = "the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)"
# No wait, pause or interval is longer: a slip of the keyboard, and no sum of it is an instant.
LONGEST_SECONDS: Final = 100 * 365 * 86_400.0


def is_instant(at: datetime) -> bool:
    """Of one that has an offset."""
    return FIRST <= at < LAST
