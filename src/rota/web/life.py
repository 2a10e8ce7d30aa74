"""The life of a run in steps: time, state, event and duration. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.model.attempt import AttemptInfo
from rota.model.run import RunInfo
from rota.web import time_text
from rota.web.life_picture import MOST_ATTEMPTS
from rota.web.run_text import first_line


@dataclass(frozen=True, slots=True)
class LifeStep:
    at: datetime
    state: str
    what: str
    more: str
    took: str = ""


def steps_of(run: RunInfo, attempts: Sequence[AttemptInfo], now: datetime) -> list[LifeStep]:
    found = [_enqueued(run)]
    if run.run_at > run.created_at and not attempts:
        found.append(
            LifeStep(run.run_at, "scheduled", "Due", "" if run.run_at <= now else "not yet")
        )
    ready_at = max(run.created_at, min(run.run_at, attempts[0].started_at) if attempts else now)
    if before := attempts[:-MOST_ATTEMPTS]:
        found.append(_summary(before))
        ready_at = before[-1].finished_at or now
    for attempt in attempts[-MOST_ATTEMPTS:]:
        waited = (attempt.started_at - ready_at).total_seconds()
        found += _attempt(attempt, waited, now)
        ready_at = attempt.finished_at or now
    if run.finished_at is not None and (not attempts or run.state == "cancelled"):
        found.append(
            LifeStep(run.finished_at, run.state, run.state.capitalize(), run.end_reason or "")
        )
    return found


def _summary(attempts: Sequence[AttemptInfo]) -> LifeStep:
    """Summarize the attempts before the last ones."""
    first, last = attempts[0], attempts[-1]
    states = Counter(attempt.state.replace("_", " ") for attempt in attempts)
    which = f"Attempts {first.attempt} to {last.attempt}"
    how = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
    return LifeStep(first.started_at, last.state, which, how)


def _told(by: object) -> dict[str, Any]:
    """Return an empty dict if a caller of SQL stored something else."""
    return by if isinstance(by, dict) else {}


def _enqueued(run: RunInfo) -> LifeStep:
    by = _told(run.triggered_by)
    kind = str(by.get("type", ""))
    who = {
        "scheduler": f"by schedule {run.schedule}",
        "catch_up": f"by schedule {run.schedule} (catch-up)",
        "backfill": f"by a backfill of {run.schedule}",
        "event": f"by event {by.get('event', '')}",
        "sql": "by SQL",
        "code": "by code",
        "manual": "manually",
    }.get(kind, kind)
    actor = f" ({by['actor']})" if by.get("actor") else ""
    return LifeStep(
        run.created_at,
        "queued",
        "Enqueued",
        f"{who}{actor}, queue {run.queue}, priority {run.priority}",
    )


def _attempt(attempt: AttemptInfo, waited: float, now: datetime) -> list[LifeStep]:
    end = attempt.finished_at or now
    took = time_text.duration((end - attempt.started_at).total_seconds())
    start = LifeStep(
        attempt.started_at,
        "running",
        f"Attempt {attempt.attempt} started",
        f"on worker {attempt.worker}"
        + (f", after {time_text.duration(waited)}" if waited > 1 else ""),
        f"{took} so far" if attempt.finished_at is None else took,
    )
    if attempt.finished_at is None:
        return [start]
    more = attempt.message or (
        f"{attempt.error_type}: {first_line(attempt.error)}" if attempt.error_type else ""
    )
    word = attempt.state.replace("_", " ")
    ended = LifeStep(attempt.finished_at, attempt.state, f"Attempt {attempt.attempt} {word}", more)
    return [start, ended]
