"""The filter of the list of events: the address is the filter, and every part of it is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import cast, get_args
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from rota.errors import FilterError, TimingError
from rota.model.event import EventFilters, Outcome
from rota.web.forms import read_time

KEYS = ("name", "tenant", "job", "key", "outcome", "text", "since", "until")
SPANS = {"": "Any time", "1h": "1 h", "24h": "24 h", "7d": "7 d"}
TABS = {
    "": "All",
    "started": "Started runs",
    "debounced": "Debounced",
    "throttled": "Throttled",
    "unbound": "No job bound",
    "filtered": "Filtered out",
    "duplicate": "Duplicates",
}
_WORD = re.compile(r'(\w+):("[^"]*"|\S+)|"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class EventQuery:
    """What the address asks for; times without a zone are in the viewer's."""

    parts: dict[str, str]
    cursor: str | None = None
    zone: tzinfo = UTC

    @classmethod
    def read(cls, given: QueryParams, zone: tzinfo) -> EventQuery:
        """`q` is what somebody typed: `name:order.* text:Wien`; a bare word is a name."""
        parts = {key: value for key in KEYS if (value := given.get(key, "").strip()[:400])}
        for key, value, quoted, word in _WORD.findall(given.get("q", "")[:1000]):
            if key and key not in KEYS:
                raise FilterError(f"unknown filter {key}", hint=f"choose from {', '.join(KEYS)}")
            parts[key or "name"] = (value or quoted or word).strip('"')
        if parts.get("outcome", "started") not in get_args(Outcome):
            raise FilterError(f"unknown outcome {parts['outcome']!r}")
        return cls(parts, None if given.get("q") else given.get("cursor"), zone)

    @property
    def filters(self) -> EventFilters:
        found: dict[str, object] = dict(self.parts)
        for key in ("since", "until"):
            if key in self.parts:
                found[key] = self._time(key, self.parts[key])
        return cast(EventFilters, found)

    def _time(self, key: str, value: str) -> object:
        try:
            return read_time(value, self.zone)
        except TimingError as error:
            raise FilterError(f"{key}: {error}") from None

    @property
    def tokens(self) -> list[tuple[str, str, str]]:
        """Every part, with the list without it."""
        return [(key, value, self.path(**{key: None})) for key, value in self.parts.items()]

    @property
    def tabs(self) -> dict[str, str]:
        return TABS

    @property
    def spans(self) -> dict[str, str]:
        return SPANS

    def path(self, **changes: str | None) -> str:
        """The same with some of it changed; another list begins at its beginning."""
        pairs = {key: value for key, value in (self.parts | changes).items() if value}
        return f"/events?{urlencode(pairs)}" if pairs else "/events"

    def at(self, cursor: str) -> str:
        return replace(self, parts={**self.parts, "cursor": cursor}).path()
