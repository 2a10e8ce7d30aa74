"""The note of a row in the list of runs. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.run import RunInfo
from rota.model.states import OPEN_STATES, RETRIABLE_STATES
from rota.web import time_text

# Why a queued run is not claimed, by the word of its row.
_HOLDS = {
    "overlap": "waits for the previous run of its schedule",
    "limit": "waits for a limit",
    "tenant": "its tenant is paused",
    "no_worker": "no live worker knows this job",
    "payload": "no live worker accepts its payload",
    "suspect": "was lost with its worker; waits to be isolated",
}
_MOST_VALUES, _LONGEST = 6, 60
_CANCELLABLE = frozenset[str](OPEN_STATES)
_RETRIABLE = frozenset[str](RETRIABLE_STATES)


@dataclass(frozen=True, slots=True)
class Note:
    """A text, the error behind it, and whether it is a problem."""

    text: str = ""
    error: str = ""
    is_odd: bool = False


def note_of(run: RunInfo, now: datetime) -> Note:
    error = first_line(run.last_error)
    match run.state:
        case "scheduled":
            until = time_text.duration((run.run_at - now).total_seconds())
            verb = "retries" if run.attempts_used else "starts"
            return Note(f"{verb} in {until}" if run.run_at > now else f"{verb} now", error)
        case "queued" if run.held_by:
            return Note(
                _HOLDS.get(run.held_by, run.held_by),
                error if run.held_by == "payload" else "",
                is_odd=True,
            )
        case "queued":
            return Note("", error)
        case "running" if run.progress is not None:
            return Note(f"{run.progress:.0%}{f', {run.message}' if run.message else ''}")
        case "failed":
            return Note("", error or run.end_reason or "")
        case "cancelled":
            return Note(run.end_reason or "")
        case _:
            return Note(first_line(run.message))


def told_of(run: RunInfo) -> list[tuple[str, str]]:
    """Return what tells the run from others of its job: its key and the start of its payload."""
    found = [("key", run.key)] if run.key else []
    payload: Any = run.payload  # psql may store other JSON than an object
    if not isinstance(payload, dict):
        payload = {"payload": payload}
    found += [(_brief(name), _brief(value)) for name, value in list(payload.items())[:_MOST_VALUES]]
    return found


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text[: 2 * _LONGEST].split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def counted(run: RunInfo) -> int:
    """Return the number of attempts that count, including the running one."""
    return run.attempts_used + (1 if run.state == "running" else 0)


def can_cancel(run: RunInfo) -> bool:
    return run.state in _CANCELLABLE


def can_retry(run: RunInfo) -> bool:
    return run.state in _RETRIABLE or run.held_by == "payload"


def can_delete(run: RunInfo) -> bool:
    return run.state not in _CANCELLABLE
