"""A job's settings, retention and payload in words. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.config.sections.retention import RetentionSettings
from rota.jobs.job_settings import RESETTABLE, SHORT_NAMES, job_settings
from rota.model.backoff import Backoff
from rota.model.event import delivery_words
from rota.model.formatting import duration, number, plural
from rota.model.job import JobInfo
from rota.model.job_edits import Edit

# The settings that code declares too, by field.
LABELS = {name: job_settings()[name].label for name in RESETTABLE}
_SHORT = {column: name for name, column in SHORT_NAMES.items() if column.endswith("_seconds")}


_MOST_WAITS = 6


def said(field: str, value: Any) -> str:
    """Return one setting in words."""
    if value is None or value in ("", [], {}):
        return job_settings()[field].field.none_means or "none"
    match field, value:
        case "timeout_seconds" | "delay_seconds" | "expires_in_seconds", int() | float():
            return duration(value)
        case "backoff", Mapping():
            return backoff_words(value)
        case "event_delivery", Mapping():
            return delivery_words(value)
        case "priority", int():
            return f"{value} (0 to 9, lower runs first)"
        case "max_attempts", int():
            return plural(value, "attempt")
        case _, str():
            return value
        case _, list():
            return ", ".join(map(str, value))
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def retry_words(given: Mapping[str, Any] | None, retries: int) -> str:
    """Return `5 s, 10 s, 20 s, each up to 1 s later`: how long a run that keeps failing waits."""
    try:
        backoff = Backoff.from_json(given) if given is not None else None
    except (TypeError, ValueError):
        backoff = None
    if backoff is None or retries < 1:
        return ""
    waits = [duration(wait) for wait in backoff.waits(min(retries, _MOST_WAITS))]
    more = f" and {retries - _MOST_WAITS} more" if retries > _MOST_WAITS else ""
    late = f", each up to {duration(backoff.jitter)} later" if backoff.jitter else ""
    return f"{', '.join(waits)}{more}{late}"


def backoff_words(given: Mapping[str, Any]) -> str:
    """Return `5 s, then × 2 each time, at most 5 min, plus up to 1 s of jitter`."""
    try:
        base, kind = duration(float(given.get("base_seconds", 5))), given.get("kind", "exponential")
        words = {
            "fixed": f"{base} each time",
            "linear": f"{base}, then {base} more each time",
            "exponential": f"{base}, then × {number(float(given.get('factor', 2)))} each time",
        }[kind]
        cap, jitter = float(given.get("cap_seconds", 300)), float(given.get("jitter_seconds", 1))
    except (TypeError, ValueError, KeyError):
        return json.dumps(dict(given), default=str)
    most = f", at most {duration(cap)}" if kind != "fixed" else ""
    return f"{words}{most}" + (f", plus up to {duration(jitter)} of jitter" if jitter else "")


@dataclass(frozen=True, slots=True)
class RetentionRow:
    """How long one kind of data is kept, and where that is set."""

    what: str
    how_long: str
    is_own: bool


def kept_of(job: JobInfo, usual: RetentionSettings) -> list[RetentionRow]:
    own: Any = job.retention if isinstance(job.retention, Mapping) else {}
    failed = own.get("failed_days") or own.get("days")
    lines = own.get("failed_log_days")
    rows = [
        _kept("Runs", own.get("days"), usual.run_days, own.get("count")),
        _kept(
            "Failed runs",
            failed,
            usual.failed_run_days or usual.run_days,
            own.get("failed_count"),
        ),
        _kept("Log lines", own.get("log_days"), usual.log_days, own.get("log_count")),
    ]
    return [*rows, _kept("Lines of failed runs", lines, usual.log_days, None)] if lines else rows


def _kept(what: str, days: Any, usual: int, count: Any) -> RetentionRow:
    words = plural(days if days is not None else usual, "day")
    if count is not None:
        words += f", at most the newest {number(count)}"
    return RetentionRow(what, words, days is not None or count is not None)


def snippet(edits: list[Edit]) -> str:
    """Return the declaration that would put the stored settings into the code."""
    parts = [f"{_SHORT.get(it.field, it.field)}={it.stored!r}" for it in edits if it.is_drift]
    return f"@app.job({', '.join(parts)})"
