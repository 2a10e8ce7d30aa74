"""What runs were given and have answered, as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunDocuments:
    """As they are stored, indented: no number is rounded. `result` is None where there is none. Of
    large ones the beginning; the bytes are those of the whole."""

    payload: str
    payload_bytes: int
    result: str | None
    result_bytes: int | None


@dataclass(frozen=True, slots=True)
class ScheduleDocuments:
    """What the runs of a schedule get, as it is stored, indented: no number is rounded."""

    payload: str | None
    run_metadata: str | None
