"""A run as a worker claims it, and as a record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from rota.model.fields import BIGGEST_ID, Field
from rota.model.states import RunState

RunId = Annotated[int, Field("Run ID.", 42, least=1, most=BIGGEST_ID)]
Cancelled = Literal["cancelled", "requested"]


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

    id: Annotated[int, Field("Run ID; never reused.", 42)]
    job: Annotated[str, Field("Job.", "send_welcome")]
    queue: Annotated[str, Field("Queue.", "mail")]
    state: Annotated[RunState, Field("Current state.", "failed")]
    priority: Annotated[int, Field("Lower runs first.", 5)]
    payload: Annotated[dict[str, Any], Field("Payload passed to the handler.", {"user_id": 7})]
    run_at: Annotated[datetime, Field("Earliest start time.")]
    attempt: Annotated[int, Field("The number of the last attempt; 0 before the first.", 3)]
    max_attempts: Annotated[int, Field("Maximum attempts.", 3)]
    key: Annotated[str | None, Field("Idempotency key.", "welcome-7")]
    tenant: Annotated[str, Field("Tenant.", "")]
    tags: Annotated[list[str], Field("Tags.", ["mail"])]
    metadata: Annotated[dict[str, Any], Field("Custom metadata.", {"team": "growth"})]
    schedule: Annotated[str | None, Field("Schedule that created it.")]
    scheduled_for: Annotated[datetime | None, Field("Scheduled time that it was created for.")]
    triggered_by: Annotated[dict[str, Any], Field("What triggered it, and who.", {"type": "code"})]
    worker: Annotated[int | None, Field("Current or last worker.", 3)]
    last_error: Annotated[
        str | None,
        Field("Error of the last failed attempt.", "SMTPServerDisconnected: connection lost"),
    ]
    message: Annotated[str | None, Field("Last progress message of the handler.")]
    result: Annotated[Any, Field("What the handler returned.")]
    created_at: Annotated[datetime, Field("When it was enqueued.")]
    started_at: Annotated[
        datetime | None, Field("Start of its last attempt.", "2026-03-08T09:00:00Z")
    ]
    finished_at: Annotated[datetime | None, Field("End time.", "2026-03-08T09:00:31Z")]
    duration_ms: Annotated[float | None, Field("Duration of its last attempt.", 214.5)]
    expires_at: Annotated[
        datetime | None, Field("The run is cancelled if it has not started by then.")
    ]
    end_reason: Annotated[str | None, Field("Why it ended.", "attempts used up")]
    attempts_used: Annotated[int, Field("Number of attempts used.", 3)]
    progress: Annotated[float | None, Field("Progress reported by the handler, from 0 to 1.")]
    held_by: Annotated[str | None, Field("What holds it back while queued.")]
    enqueued_at: Annotated[
        datetime | None, Field("When it was last queued.", "2026-03-08T09:00:00Z")
    ] = None
    error_group: Annotated[
        str | None, Field("The group that its last error belongs to: see `/errors`.")
    ] = None
