"""The filter of the list of errors: the address is the filter, and every part of it is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from starlette.datastructures import QueryParams

from rota.model.error_group import OPEN, ErrorFilters, Standing
from rota.web.list_query import Token, address

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


@dataclass(frozen=True, slots=True)
class ErrorQuery:
    """The filter in the address. `cursor` is where the page begins."""

    tab: TabName = "open"
    span: str = "24h"
    job: str = ""
    text: str = ""
    most: bool = False
    system: bool = False
    cursor: tuple[Any, ...] | None = None

    @classmethod
    def read(cls, given: QueryParams) -> ErrorQuery:
        tab, span = given.get("tab", "open"), given.get("range", "24h")
        return cls(
            tab=tab if tab in TABS else "open",
            span=span if span in RANGES else "24h",
            job=given.get("job", "")[:200],
            text=given.get("q", "").strip()[:400],
            most=given.get("order") == "most",
            system=given.get("system") == "1",
            cursor=_read_cursor(given.get("cursor", "")),
        )

    @property
    def filters(self) -> ErrorFilters:
        return {
            "standings": TABS[self.tab][1],
            "job": self.job or None,
            "text": self.text or None,
            "system": self.system,
        }

    @property
    def words(self) -> str:
        return RANGE_WORDS[self.span]

    @property
    def tokens(self) -> list[Token]:
        found = []
        if self.job:
            found.append(Token("job", self.job, self.path(job="")))
        if self.text:
            found.append(Token("text", self.text, self.path(text="")))
        if self.system:
            found.append(Token("with", "Rota’s own", self.path(system=False)))
        return found

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filter as fields of a form, without the words that the form's input contains."""
        return [pair for pair in self._pairs() if pair[0] not in ("q", "cursor")]

    def path(self, base: str = "/errors", **changes: Any) -> str:
        return address(base, replace(self, **{"cursor": None} | changes)._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        given = {
            "tab": "" if self.tab == "open" else self.tab,
            "range": "" if self.span == "24h" else self.span,
            "job": self.job,
            "q": self.text,
            "order": "most" if self.most else "",
            "system": "1" if self.system else "",
            "cursor": json.dumps(self.cursor) if self.cursor else "",
        }
        return [(key, value) for key, value in given.items() if value]


def _read_cursor(text: str) -> tuple[float, str] | None:
    try:
        place, group = json.loads(text)
        return float(place), str(group)
    except (ValueError, TypeError):
        return None
