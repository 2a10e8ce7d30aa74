"""A schedule as the tick reads it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

import msgspec

CatchUp = Literal["none", "latest", "all"]
Overlap = Literal["skip", "queue_one", "queue_all", "cancel_running", "allow"]


class Segment(msgspec.Struct, frozen=True):
    """A past period that is already decided, with its timing."""

    timing: dict[str, Any]
    until: datetime
    decision: Literal["skipped", "missed", "superseded"]
    reason: str


class Requirement(msgspec.Struct, frozen=True):
    """`job` or schedule `name` must have succeeded, within this number of seconds or at its last
    run."""

    name: str
    within_seconds: float | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """One row of rota.schedules, without the columns that the tick does not need."""

    id: int
    tenant: str
    name: str
    job: str
    tick_version: int
    anchor_at: datetime
    cursor_at: datetime
    cron: str | None = None
    interval_seconds: float | None = None
    run_at: datetime | None = None
    has_seconds: bool = False
    timezone: str = "UTC"
    gap: Literal["run_after", "skip"] = "run_after"
    fold: Literal["first", "second", "both"] = "first"
    every_from: Literal["start", "end"] = "start"
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    jitter_seconds: float = 0.0
    calendar: str | None = None
    on_closed: Literal["skip", "next_day"] = "skip"
    catch_up: CatchUp = "latest"
    catch_up_window_seconds: float | None = None
    catch_up_limit: int = 100
    grace_seconds: float = 60.0
    overlap: Overlap = "skip"
    max_concurrent_runs: int = 1
    requires: tuple[Requirement, ...] = ()
    is_shadow: bool = False
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    next_run_at: datetime | None = None
    moved_to: datetime | None = None
    segments: tuple[Segment, ...] = ()
    run_count: int = 0
    last_success_for: datetime | None = None

    @classmethod
    def read(cls, row: str) -> Self:
        """Read the row as JSON; an invalid value is an error of this schedule."""
        return msgspec.json.decode(row, type=cls, strict=False)

    @property
    def stored_timing(self) -> dict[str, Any]:
        """The timing columns, as a segment stores them."""
        return {name: getattr(self, name) for name in _TIMING}


_TIMING = (
    "cron",
    "interval_seconds",
    "run_at",
    "has_seconds",
    "timezone",
    "gap",
    "fold",
    "every_from",
    "start_at",
    "end_at",
    "anchor_at",
)
_INSTANTS = ("run_at", "start_at", "end_at", "anchor_at")


def timing_arguments(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the columns, or a segment's JSON, to the arguments of `Timing.of`."""
    values = {name: value for name, value in stored.items() if value is not None}
    for name in _INSTANTS:
        if isinstance(values.get(name), str):
            values[name] = datetime.fromisoformat(values[name])
    values["with_seconds"] = values.pop("has_seconds", False)
    values["anchor"] = values.pop("anchor_at", None)
    values.pop("every_from", None)
    return values
