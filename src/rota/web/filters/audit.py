"""The filters of the audit and of the list of events."""

from __future__ import annotations

from typing import ClassVar

from rota.model.audit import AuditFilters
from rota.model.event import EventFilters
from rota.web.filters.list_query import ListQuery


class AuditQuery(ListQuery):
    __slots__ = ()
    PLACE = "/audit"
    FILTERS: ClassVar = AuditFilters
    SPANS: ClassVar = {"": "Any time", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
    NOUNS = (
        "run",
        "schedule",
        "job",
        "queue",
        "tenant",
        "limit",
        "worker",
        "calendar",
        "error",
        "bulk",
        "event",
        "watch",
    )


class EventQuery(ListQuery):
    __slots__ = ()
    PLACE = "/events"
    FILTERS: ClassVar = EventFilters
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
