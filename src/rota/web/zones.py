"""The names of time zones to choose from."""

from __future__ import annotations

from typing import Final
from zoneinfo import available_timezones

# Without names that only old systems use, such as "posix/…", "Etc/…" and "EST5EDT".
NAMES: Final = (
    "UTC",
    *sorted(
        name
        for name in available_timezones()
        if "/" in name and not name.startswith(("posix/", "right/", "Etc/", "SystemV/", "US/"))
    ),
)
