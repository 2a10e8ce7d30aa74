"""A run with its attempts and log lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from rota.model.attempt import AttemptInfo
from rota.model.fields import Field
from rota.model.log import LogLine
from rota.model.run import RunInfo

Isolation = Literal["waiting", "process", "inline"]


@dataclass(frozen=True, slots=True)
class Handled:
    """Who marked a run that failed permanently, or its error group, as handled."""

    handled_at: Annotated[datetime, Field("When it was handled.")]
    handled_by: Annotated[str, Field("Who handled it.", "api:ada")]
    reason: Annotated[str | None, Field("Reason given.", "refunded by hand")]


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run, its attempts (first one first), and its last log lines in order. For a run that was
    lost with its worker, `isolation` says that it waits to be isolated, or where it is isolated:
    in a separate `process`, or `inline`, in its worker's process."""

    run: Annotated[RunInfo, Field("The run.")]
    attempts: Annotated[list[AttemptInfo], Field("Its attempts, first one first.")]
    logs: Annotated[list[LogLine], Field("Its most recent log lines, in order.")]
    isolation: Annotated[
        Isolation | None,
        Field(
            "If a worker was lost with it: whether it waits to run in isolation, or where it does, "
            "in a separate process or in its worker's."
        ),
    ] = None
    handled: Annotated[
        Handled | None, Field("Dead letters: who handled it, or its error group.")
    ] = None
