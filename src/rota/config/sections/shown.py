"""How a setting reads where its type and value do not say it well; sizes of many bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["debug", "info", "warning", "error", "critical"]

# Long enough for any wait, short enough for a Postgres interval and a person's typing error.
YEAR = 31_536_000
KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown instead of the type's own words."""

    default: str | None = None
    range: str | None = None
    is_secret: bool = False
    hint: str | None = None
    items: str = "names"
