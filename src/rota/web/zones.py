"""The names of zones, to choose one of."""

from __future__ import annotations

from typing import Final
from zoneinfo import available_timezones

# Without the ones that only old systems know, as "posix/…", "Etc/…" and "EST5EDT".
NAMES: Final = (
    "UTC",
    *sorted(
        name
        for name in available_timezones()
        if "/" in name and not name.startswith(("posix/", "right/", "Etc/", "SystemV/", "US/"))
    ),
)
