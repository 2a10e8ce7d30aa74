"""Error groups."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from rota.api.schemas.values import Reason
from rota.api.schemas.views import Body, examples, list_of, page, view
from rota.model.error_group import ErrorDetails, ErrorGroup, Share, Trait

Standing = Literal["new", "back", "known", "handled", "quiet"]
_AT = "2026-03-08T09:00:00Z"
_EXAMPLE: dict[str, Any] = {
    "id": "5f1c09a2be41", "error_type": "ConnectionError", "error": "503 from the supplier",
    "file": "shop/app.py", "line": 122, "function": "call_supplier", "jobs": ["call_supplier"],
    "standing": "back", "first_seen_at": "2026-02-01T09:00:00Z", "last_seen_at": _AT,
    "failures": 1592, "runs": 398, "recent_failures": 12, "recent_runs": 3, "share": 0.4,
    "counts": [0, 4, 8], "last_run_id": 42, "returned_at": None, "quiet_since": None,
    "handled_at": "2026-03-01T09:00:00Z", "handled_by": "api:ada",
    "handled_reason": "the supplier knows",
}  # fmt: skip

ErrorGroupView = view(
    ErrorGroup,
    "ErrorGroup",
    {
        "id": "Error group ID; stable across machines.",
        "error_type": "Class of the exception.",
        "error": "The last message.",
        "file": "File in the application's code; null if none.",
        "line": "Line of the last occurrence.",
        "function": "Function in the application's code.",
        "jobs": "Jobs that failed.",
        "standing": "`new` for a day, then `known`; `handled`; `back` if it recurred after "
        "being handled or after a week of silence; `quiet` after a week of "
        "silence.",
        "first_seen_at": "First failure.",
        "last_seen_at": "Last failure.",
        "failures": "Number of failures.",
        "runs": "Number of runs that failed permanently with it.",
        "recent_failures": "Number of failures in the period.",
        "recent_runs": "Number of runs in the period.",
        "share": "Share of all failures in the period, 0 to 1.",
        "counts": "Failures in equal intervals of the period, up to now.",
        "last_run_id": "Run that failed with it last.",
        "returned_at": "When it last recurred after a week of silence.",
        "quiet_since": "Last failure before that.",
        "handled_at": "When it was last handled.",
        "handled_by": "Who handled it.",
        "handled_reason": "Reason given.",
    },
    _EXAMPLE,
    standing=Standing,
)
ErrorGroupPage = page(
    ErrorGroupView,
    standings=(
        dict[str, int],
        Field(description="Number of matching groups by standing."),
    ),
    since=(datetime, Field(description="Start of the counted period.")),
    failures=(int, Field(description="All matching failures in the period.")),
)
ShareView = view(
    Share,
    "Share",
    {"value": "Value of the field.", "runs": "Number of runs with this value."},
    {"value": "lamp", "runs": 311},
)
TraitView = view(
    Trait,
    "Trait",
    {"name": "`job`, `worker` or `payload.<field>`.", "shares": "Most common values."},
    {"name": "payload.product", "shares": [{"value": "lamp", "runs": 311}]},
    shares=list_of(ShareView),
)
ErrorDetailsView = view(
    ErrorDetails,
    "ErrorDetails",
    {
        "group": "The group.",
        "since": "Start of the counted period.",
        "traceback": "Traceback of the last failure that has one.",
        "traits": "What its last failed runs have in common.",
        "looked_at": "Number of runs examined.",
    },
    {
        "group": _EXAMPLE,
        "since": _AT,
        "traceback": "Traceback (most recent call last): …",
        "traits": [{"name": "payload.product", "shares": [{"value": "lamp", "runs": 311}]}],
        "looked_at": 398,
    },
    group=ErrorGroupView,
    traits=list_of(TraitView),
)


class Handling(Body):
    """Reason for the action."""

    model_config = examples({"reason": "the supplier knows"})

    reason: Reason = None
