"""Instants that every reader can represent, in every time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

# A day less at both ends, as in SQL (rota.is_instant): the years 1 to 9999 in every zone.
FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)
SUPPORTED: Final = "the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)"
# No wait, pause or interval is longer: it would be a typing error, and could not be added to an
# instant.
LONGEST_SECONDS: Final = 100 * 365 * 86_400.0


def is_instant(at: datetime) -> bool:
    """Return whether an instant with an offset is in range."""
    return FIRST <= at < LAST
