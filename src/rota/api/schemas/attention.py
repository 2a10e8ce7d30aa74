"""Items that need attention."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import list_of, view
from rota.model.attention import Attention, KindCount, Need

_NEED: dict[str, Any] = {
    "kind": "paused_queue", "state": "paused", "subject": "queue", "name": "mail", "noun": "Queue",
    "says": "is paused: 12 runs wait, the oldest for 2 h 14 min",
    "reason": "by grace: “provider is down”", "since": "2026-03-08T07:45:00Z", "tenant": "",
    "figures": {"waiting": 12, "oldest_seconds": 8040.0}, "command": "rota queues resume mail",
}  # fmt: skip
_KIND: dict[str, Any] = {
    "kind": "paused_queue", "subject": "queue", "state": "paused", "count": 1,
}  # fmt: skip

NeedView = view(
    Need,
    "Need",
    {
        "kind": "Kind of item: `failing_job`, `paused_queue`, …",
        "state": "State in one word: `failed`, `paused`, `late`, `lost`, `warn`, …",
        "subject": "Type of object: `job`, `queue`, `schedule`, `run`, `worker` or `limit`.",
        "name": "Name, or run ID.",
        "noun": "Start of the sentence, before the name.",
        "says": "Rest of the sentence, with the figures and what is usual.",
        "reason": "Reason, or the last error; null if unknown.",
        "since": "Since when.",
        "tenant": "Tenant; empty: no tenant.",
        "figures": "Figures in the sentence.",
        "command": "Command to fix or inspect it.",
    },
    _NEED,
)
KindView = view(
    KindCount,
    "KindCount",
    {
        "kind": "Kind of item.",
        "subject": "Type of object.",
        "state": "Current state.",
        "count": "Number of items, listed or not.",
    },
    _KIND,
)
AttentionView = view(
    Attention,
    "Attention",
    {
        "at": "Current time of the database's clock.",
        "total": "Number of items that need attention.",
        "needs": "First items of each kind, most severe kind first.",
        "kinds": "Number of items of each kind.",
    },
    {"at": "2026-03-08T09:59:30Z", "total": 1, "needs": [_NEED], "kinds": [_KIND]},
    needs=list_of(NeedView),
    kinds=list_of(KindView),
)
