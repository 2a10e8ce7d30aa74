"""Everything about one run."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.attempt import AttemptInfo
from rota.model.log import LogLine
from rota.model.run import RunInfo


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run, its attempts with the first one first, and its last log lines in their order."""

    run: RunInfo
    attempts: list[AttemptInfo]
    logs: list[LogLine]
