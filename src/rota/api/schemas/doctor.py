"""The report on the installation."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import list_of, view
from rota.model.finding import Finding, Report

_FINDING: dict[str, Any] = {
    "check": "oldest_transaction", "verdict": "bad",
    "title": "A transaction has been open for 3 h 41 min", "figure": "3 h 41 min",
    "limit": "5 min",
    "detail": "Process 31007, user bi_export: idle in transaction. Dead rows cannot be removed "
    "while it is open: claims and lists become slower.",
    "advice": "ask its owner to end it, or end it yourself; then give that role a limit.",
    "commands": ["psql -c 'select pg_terminate_backend(31007)'"],
}  # fmt: skip

FindingView = view(
    Finding,
    "Finding",
    {
        "check": "Check that reported it.",
        "verdict": "`ok`, `warn` or `bad`.",
        "title": "Finding in one sentence.",
        "figure": "What was measured.",
        "limit": "Threshold; null if there is none.",
        "detail": "Impact; null if all is well.",
        "advice": "Recommended action; null if all is well.",
        "commands": "Commands to run.",
    },
    _FINDING,
)
ReportView = view(
    Report,
    "Report",
    {
        "at": "Current time of the database's clock.",
        "took_ms": "How long the checks took.",
        "bad": "Number of findings that need action.",
        "warn": "Number of warnings.",
        "ok": "Number of checks that passed.",
        "findings": "All findings, most severe first.",
    },
    {
        "at": "2026-03-08T09:59:30Z", "took_ms": 12.0, "bad": 1, "warn": 0, "ok": 18,
        "findings": [_FINDING],
    },
    findings=list_of(FindingView),
)  # fmt: skip
