"""Explanations of why something does not run, or what happened to it."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import list_of, view
from rota.model.why import Reason, Why

_AT = "2026-03-08T09:00:00Z"
_REASON: dict[str, Any] = {
    "code": "queue_paused",
    "sentence": "Queue mail is paused by grace: “the provider is down”.",
    "since": "2026-03-08T08:12:00Z",
    "until": None,
    "by_whom": "grace",
    "next_step": "No run of the queue starts until somebody resumes it; running attempts continue.",
    "command": "rota queues resume mail",
    "facts": {"queue": "mail"},
    "is_past": False,
}
ReasonView = view(
    Reason,
    "Reason",
    {
        "code": "Machine-readable code of the reason.",
        "sentence": "The reason in plain words.",
        "since": "Since when it applies.",
        "until": "When it ends or is expected to end; null if unknown.",
        "by_whom": "Who caused it.",
        "next_step": "What happens next, or what to do.",
        "command": "Command that would change it.",
        "facts": "Objects named in the sentence: `run`, `job`, `queue`, `schedule`, "
        "`worker`, `other` …",
        "is_past": "Whether it is a past event at `since` rather than a continuing state.",
    },
    _REASON,
)
WhyView = view(
    Why,
    "Why",
    {
        "kind": "Kind of object: run, schedule, job or queue.",
        "name": "Name or ID.",
        "tenant": "Tenant of the schedule.",
        "at": "Current time of the database's clock.",
        "also": "Other kinds of object with the same name; select one with `kind`.",
        "reasons": "Reasons, most important first.",
    },
    {"kind": "queue", "name": "mail", "tenant": "", "at": _AT, "also": [], "reasons": [_REASON]},
    reasons=list_of(ReasonView),
)
