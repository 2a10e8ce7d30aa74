"""The filter of the list of events."""

from __future__ import annotations

from datetime import tzinfo
from typing import ClassVar, Self, get_args

from starlette.datastructures import QueryParams

from rota.errors import FilterError
from rota.model.event import Outcome
from rota.web.list_query import ListQuery

_KEYS = ("name", "tenant", "job", "key", "outcome", "text", "since", "until")


class EventQuery(ListQuery):
    PLACE = "/events"
    KEYS: ClassVar = {key: key for key in _KEYS}
    SPANS: ClassVar = {"": "Any time", "1h": "1 h", "24h": "24 h", "7d": "7 d"}
    TABS: ClassVar = {
        "": "All",
        "started": "Started runs",
        "debounced": "Debounced",
        "throttled": "Throttled",
        "unbound": "No job bound",
        "filtered": "Filtered out",
        "duplicate": "Duplicates",
    }

    @classmethod
    def read(cls, given: QueryParams, zone: tzinfo) -> Self:
        found = super().read(given, zone)
        if found.parts.get("outcome", "started") not in get_args(Outcome):
            raise FilterError(f"unknown outcome {found.parts['outcome']!r}")
        return found
