"""Presentation of settings whose type and value are not clear enough; common bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["debug", "info", "warning", "error", "critical"]

# Long enough for any wait, short enough for a Postgres interval and to catch typing errors.
YEAR = 31_536_000
KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Shown:
    """Texts to show instead of those derived from the type."""

    default: str | None = None
    range: str | None = None
    is_secret: bool = False
    hint: str | None = None
    items: str = "names"
