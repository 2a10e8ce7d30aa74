"""The filter of the audit."""

from __future__ import annotations

from typing import ClassVar

from rota.web.list_query import ListQuery


class AuditQuery(ListQuery):
    PLACE = "/audit"
    KEYS: ClassVar = {
        "noun": "object_type", "name": "object_id", "actor": "actor", "action": "action",
        "tenant": "tenant", "since": "since", "until": "until",
    }  # fmt: skip
    SPANS: ClassVar = {"": "Any time", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
    NOUNS = (
        "run", "schedule", "job", "queue", "tenant", "limit", "worker", "calendar", "error",
        "bulk", "event", "watch",
    )  # fmt: skip
