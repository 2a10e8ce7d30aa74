"""The filter of the list of errors."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, ClassVar, Literal, cast

from rota.model.error_group import OPEN, ErrorFilters, Standing
from rota.web.filters.list_query import ListQuery, Part

TabName = Literal["open", "news", "handled", "quiet", "all"]
# By key: the label, and the standings that are shown.
TABS: dict[TabName, tuple[str, tuple[Standing, ...] | None]] = {
    "open": ("Open", OPEN),
    "news": ("New or back", ("new", "back")),
    "handled": ("Handled", ("handled",)),
    "quiet": ("Quiet for 7 d", ("quiet",)),
    "all": ("All", None),
}
RANGES = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
RANGE_WORDS = {"1h": "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days"}


class ErrorQuery(ListQuery):
    __slots__ = ()
    PLACE = "/errors"
    FILTERS: ClassVar = ErrorFilters
    OPTIONS: ClassVar = {"tab": "open", "range": "24h", "order": "last"}

    @property
    def tab(self) -> TabName:
        return cast(TabName, self.get("tab")) if self.get("tab") in TABS else "open"

    @property
    def span(self) -> str:
        return self.get("range") if self.get("range") in RANGES else "24h"

    @property
    def is_most(self) -> bool:
        return self.get("order") == "most"

    @property
    def words_of_range(self) -> str:
        return RANGE_WORDS[self.span]

    @property
    def listed(self) -> ErrorFilters:
        """The arguments of the list. Its tab is one of standings, unless some are asked for."""
        found: Any = {"standings": TABS[self.tab][1]} | self.filters
        chosen: ErrorFilters = found
        return chosen

    @property
    def place(self) -> tuple[Any, ...] | None:
        """Where the page begins."""
        try:
            place, group = json.loads(self.cursor or "")
            return float(place), str(group)
        except (ValueError, TypeError):
            return None

    def _shown(self, part: Part) -> tuple[str, str]:
        if part.word == "system" and self._value(part):
            return "with", "Rota’s own"
        return super()._shown(part)
