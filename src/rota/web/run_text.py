"""The note of a row in the list of runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
