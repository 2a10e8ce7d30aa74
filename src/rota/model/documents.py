"""Payloads and results of runs, as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunDocuments:
    """Payload and result as stored, indented, with no number rounded. `result` is None if there is
    none. Large documents are truncated; `…_bytes` is the size of the whole."""

    payload: str
    payload_bytes: int
    result: str | None
    result_bytes: int | None


@dataclass(frozen=True, slots=True)
class ScheduleDocuments:
    """Payload and metadata of the runs of a schedule as stored, indented, with no number
    rounded."""

    payload: str | None
    run_metadata: str | None
