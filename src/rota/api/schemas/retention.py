"""Expired data that retention removes."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import list_of, view
from rota.model.retention import RetentionItem, RetentionResult

_ITEM: dict[str, Any] = {
    "action": "drop", "table": "ended_runs", "rows": 120_000, "partition": "ended_runs_2026_02_02",
    "job": None, "outcome": None, "until": "2026-02-09T00:00:00Z", "bytes": 48_000_000,
    "note": None, "tenant": None,
}  # fmt: skip
RetentionItemView = view(
    RetentionItem,
    "RetentionItem",
    {
        "action": "Whether a whole partition or rows are deleted.",
        "table": "Table.",
        "rows": "Number of rows; an estimate for a partition.",
        "partition": "Partition.",
        "job": "Job.",
        "outcome": "Outcome of the runs.",
        "until": "Data that ended before this time.",
        "bytes": "Size in bytes.",
        "note": "Why it was not deleted.",
        "tenant": "Tenant.",
    },
    _ITEM,
)
RetentionView = view(
    RetentionResult,
    "RetentionResult",
    {"is_dry_run": "Whether nothing was removed.", "items": "What was removed, or would be."},
    {"is_dry_run": True, "items": [_ITEM]},
    items=list_of(RetentionItemView),
)
