"""Functions of an application that Rota calls besides its handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple


class Hook(NamedTuple):
    """A function with one `yield`: the part before it runs before the call, the rest after."""

    make: Callable[[Any], Any]
    is_async: bool
    place: str


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Passed to `on_failure`: how an attempt failed, and what becomes of its run.

    `error` is the exception. If the handler ran in a child process and its exception cannot be
    pickled, or if the job is a SQL function, it is one that has the same message. `is_final` says
    whether the run is a dead letter now; otherwise it is tried again after `retry_in` seconds.
    """

    error: BaseException
    error_type: str
    message: str
    traceback: str | None
    is_final: bool
    retry_in: float | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Passed to `on_dead_letter`: a run that has failed permanently, whatever happened to its
    worker. `app.runs.get(letter.run_id)` has the rest of it."""

    run_id: int
    job: str
    queue: str
    tenant: str
    attempt: int
    end_reason: str | None
    error_type: str | None
    error: str | None
    key: str | None
    schedule: str | None
    finished_at: datetime
