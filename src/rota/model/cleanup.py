"""Cleanup of expired rows: the rules, their effect, and recipes to start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rota.model.cleanup_condition import condition_text
from rota.model.states import ScheduleState

JOB = "rota.cleanup"
DEFAULT_CRON = "0 3 * * *"
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True, slots=True)
class CleanupRule:
    """Deletes rows of `table` whose `column` is more than `older_than` in the past and that match
    `where`: at most `batch_size` times `max_batches` rows per run."""

    table: str
    column: str
    older_than: str
    where: str
    batch_size: int
    max_batches: int


@dataclass(frozen=True, slots=True)
class CleanupInfo:
    """A schedule of the job `rota.cleanup`: what it deletes, and when."""

    name: str
    description: str
    rules: list[CleanupRule]
    timing: str
    timezone: str
    state: ScheduleState
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_run_success: bool | None


@dataclass(frozen=True, slots=True)
class CleanupCount:
    """The number of rows that a rule would delete now."""

    name: str
    table: str
    column: str
    matching: int


@dataclass(frozen=True, slots=True)
class CleanupTable:
    """A table that a cleanup can delete from; `times` are its columns that hold a time."""

    name: str
    times: list[str]


@dataclass(frozen=True, slots=True)
class RecipeInfo:
    """A ready-made cleanup for tables of this database. `prefix` is what precedes their usual
    names; `is_used` says whether cleanups delete from all of these tables by these columns."""

    name: str
    description: str
    cron: str
    prefix: str
    rules: list[CleanupRule] = field(default_factory=list)
    is_used: bool = False


def rule_of(said: Mapping[str, Any]) -> CleanupRule:
    """Read a stored rule. Values that were written past the checks are shown as they are."""
    return CleanupRule(
        table=str(said.get("table", "")),
        column=str(said.get("column", "")),
        older_than=age_words(said.get("older_than")),
        where=condition_text(said.get("where")),
        batch_size=_whole(said.get("batch_size"), 1000),
        max_batches=_whole(said.get("max_batches"), 100),
    )


def age_words(age: Any) -> str:
    """Return `7 days` for 604800; text is an interval already."""
    if not isinstance(age, int | float) or isinstance(age, bool):
        return str(age)
    for size, word in _UNITS:
        if age and age % size == 0:
            count = int(age // size)
            return f"{count} {word}" if count == 1 else f"{count} {word}s"
    return f"{age:g} seconds"


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
