"""The fields of a schedule with their labels, and their values in a few words. Pure."""

from __future__ import annotations

import json
from typing import Any

from rota.web import time_text

LABELS = {
    "job": "job",
    "description": "description",
    "tags": "tags",
    "metadata": "metadata",
    "cron": "cron",
    "interval_seconds": "interval",
    "run_at": "once, at",
    "init": "at startup",
    "has_seconds": "cron with seconds",
    "timezone": "zone",
    "gap": "skipped local time",
    "fold": "repeated local time",
    "every_from": "interval counts from",
    "start_at": "not before",
    "end_at": "not after",
    "max_runs": "maximum runs",
    "jitter_seconds": "jitter",
    "burst_allowed": "burst allowed",
    "calendar": "calendar",
    "on_closed": "on a closed day",
    "catch_up": "catch-up",
    "catch_up_seconds": "catch-up, maximum age",
    "catch_up_limit": "catch-up, maximum times",
    "grace_seconds": "grace period",
    "overlap": "overlap",
    "max_concurrent_runs": "concurrent runs",
    "pause_after_failures": "pause after failures",
    "requires": "requires",
    "is_shadow": "shadow",
    "delete_when_finished": "delete when finished",
    "payload": "payload",
    "queue": "queue",
    "priority": "priority",
    "max_attempts": "attempts",
    "timeout_seconds": "timeout",
    "run_tags": "tags of its runs",
    "run_metadata": "metadata of its runs",
    "is_enabled": "enabled",
    "pause_reason": "pause reason",
    "paused_until": "paused until",
    "next_run_at": "next time",
}
_LONGEST = 200


def label_of(column: str) -> str:
    return LABELS.get(column, column.removesuffix("_seconds").replace("_", " "))


def value_of(column: str, value: Any) -> str:
    """Return the value on one line; cut it if it is long."""
    text = _words(column, value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _words(column: str, value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("_seconds") and isinstance(value, int | float):
        return time_text.duration(float(value)) if value else "none"
    if column == "requires" and isinstance(value, list):
        return ", ".join(str(item.get("name", item)) for item in value if isinstance(item, dict))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value).replace("_", " ") if column in _WORDY else str(value)


_WORDY = {"gap", "fold", "on_closed", "catch_up", "overlap"}
