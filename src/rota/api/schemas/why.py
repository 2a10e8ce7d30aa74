"""Why something does not run, or did what it did."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import view
from rota.model.why import Reason, Why

_AT = "2026-03-08T09:00:00Z"
_REASON: dict[str, Any] = {
    "code": "queue_paused",
    "sentence": "Queue mail is paused by grace: “the provider is down”.",
    "since": "2026-03-08T08:12:00Z",
    "until": None,
    "by_whom": "grace",
    "next_step": "Nothing of the queue starts until somebody resumes it; what runs, runs on.",
    "command": "rota queues resume mail",
    "facts": {"queue": "mail"},
    "is_past": False,
}
ReasonView = view(
    Reason,
    "Reason",
    {
        "code": "For programs: which reason it is.",
        "sentence": "The reason in plain words.",
        "since": "From when on it holds.",
        "until": "Until when, or when that is expected to end; null: nobody knows.",
        "by_whom": "Who made it so.",
        "next_step": "What happens then, or what somebody should do.",
        "command": "Command that would change it.",
        "facts": "What the sentence names: `run`, `job`, `queue`, `schedule`, `worker`, `other` …",
        "is_past": "Whether it happened at `since`, and does not go on from there.",
    },
    _REASON,
)
WhyView = view(
    Why,
    "Why",
    {
        "kind": "What was asked about: run, schedule, job or queue.",
        "name": "Its name, or its number.",
        "tenant": "Tenant of the schedule.",
        "at": "Current time of the database's clock.",
        "also": "Other kinds of thing with the same name: ask with `kind`.",
        "reasons": "The heaviest first.",
    },
    {"kind": "queue", "name": "mail", "tenant": "", "at": _AT, "also": [], "reasons": [_REASON]},
    reasons=list[ReasonView],  # type: ignore[valid-type]
)
