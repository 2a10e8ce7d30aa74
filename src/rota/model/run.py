"""A run as a worker claims it, and as a record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from rota.model.states import RunState


class Extras(msgspec.Struct, frozen=True):
    """The optional fields that the end of a run depends on."""

    key: str | None = None
    schedule: str | None = None


_read_extras = msgspec.json.Decoder(Extras).decode


class Claim(NamedTuple):
    """One claimed run, in the order of the columns that `rota.claim_runs` returns.

    A named tuple, because the driver makes one for every run of the hot path. `extras` is JSON of
    what only some runs have (key, tags, metadata, schedule and more); None for all others.
    """

    id: int
    seq: int
    attempt: int
    attempts_used: int
    max_attempts: int
    priority: int
    queue: str
    job: str
    payload: bytes
    validated_by: int | None
    timeout_seconds: float | None
    is_expired: bool | None
    is_suspect: bool
    enqueued_at: datetime
    claimed_at: datetime
    extras: bytes | None
    tenant: str

    @property
    def is_plain(self) -> bool:
        """The run has no key and no schedule, so nothing else ends with it."""
        if self.extras is None:
            return True
        extras = _read_extras(self.extras)
        return extras.key is None and extras.schedule is None


class RunEnd(NamedTuple):
    """How a run ended."""

    id: int
    state: RunState
    result: Any
    end_reason: str | None
    last_error: str | None

    @classmethod
    def of(cls, run: RunInfo) -> RunEnd:
        return cls(run.id, run.state, run.result, run.end_reason, run.last_error)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One row of the view `rota.runs`."""

    id: int
    job: str
    queue: str
    state: RunState
    priority: int
    payload: dict[str, Any]
    run_at: datetime
    attempt: int
    max_attempts: int
    key: str | None
    tenant: str
    tags: list[str]
    metadata: dict[str, Any]
    schedule: str | None
    scheduled_for: datetime | None
    triggered_by: dict[str, Any]
    worker: int | None
    last_error: str | None
    message: str | None
    result: Any
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: float | None
    expires_at: datetime | None
    end_reason: str | None
    attempts_used: int
    progress: float | None
    held_by: str | None
    enqueued_at: datetime | None = None
    error_group: str | None = None
