"""Cleanup of expired rows: the rules, their effect, and recipes to start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from rota.model.cleanup_condition import condition_text
from rota.model.durations import Duration
from rota.model.fields import Field
from rota.model.states import ScheduleState

JOB = "rota.cleanup"
DEFAULT_CRON = "0 3 * * *"
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_TABLE = "public.webhook_deliveries"
_WHERE = "status <> 'pending'"

CleanupName = Annotated[str, Field("Cleanup name.", "webhook_delivery_prune", shortest=1)]
AnyCleanup = Annotated[str | None, Field("Cleanup name. Default: all.", shortest=1)]
NewName = Annotated[str | None, Field("Name. Default: `cleanup_` and the table.", shortest=1)]
NameOfRecipe = Annotated[str | None, Field("Name. Default: that of the recipe.", shortest=1)]
Table = Annotated[str, Field("Table, with its schema (default public).", _TABLE, shortest=1)]
TimeColumn = Annotated[
    str,
    Field("Column that holds the time.", "created_at", shortest=1, longest=63, metavar="COLUMN"),
]
OlderThan = Annotated[
    Duration, Field("Minimum age of the rows to delete.", 604_800, least=0, metavar="DURATION")
]
Where = Annotated[
    str | None,
    Field(
        "Further conditions. They are parsed, not executed as SQL.",
        _WHERE,
        longest=2000,
        metavar="CONDITION",
    ),
]
When = Annotated[str, Field("Cron expression.", DEFAULT_CRON, metavar="CRON")]
Zone = Annotated[
    str, Field("Time zone of the cron expression.", "UTC", longest=100, metavar="ZONE")
]
Description = Annotated[str, Field("Description.", "", longest=10_000)]
RecipeName = Annotated[
    str, Field("Recipe, as `recipes` lists it.", "stale_session_cleanup", shortest=1)
]
Prefix = Annotated[
    str | None,
    Field(
        "Prefix of the tables, with or without their schema, if the recipe fits several.",
        "public.",
        metavar="PREFIX",
    ),
]


@dataclass(frozen=True, slots=True)
class CleanupRule:
    """Deletes rows of `table` whose `column` is more than `older_than` in the past and that match
    `where`: at most `batch_size` times `max_batches` rows per run."""

    table: Annotated[str, Field("Table, with its schema.", _TABLE)]
    column: TimeColumn
    older_than: Annotated[str, Field("Minimum age of the rows to delete.", "7 days")]
    where: Annotated[str, Field("Further conditions; empty: none.", _WHERE)]
    batch_size: Annotated[int, Field("Rows deleted per statement.", 1000)]
    max_batches: Annotated[int, Field("Maximum number of batches per run.", 100)]


Rules = Annotated[list[CleanupRule], Field("What it deletes.")]


@dataclass(frozen=True, slots=True)
class CleanupInfo:
    """A schedule of the job `rota.cleanup`: what it deletes, and when."""

    name: CleanupName
    description: Description
    rules: Rules
    timing: Annotated[str, Field("When it runs, in words.", "every day at 03:00 UTC")]
    timezone: Zone
    state: Annotated[ScheduleState, Field("State of its schedule.", "active")]
    next_run_at: Annotated[datetime | None, Field("When it runs next.", "2026-03-09T03:00:00Z")]
    last_run_at: Annotated[
        datetime | None, Field("When its last run ended.", "2026-03-08T03:00:01Z")
    ]
    last_run_success: Annotated[bool | None, Field("Whether that run succeeded.", True)]


@dataclass(frozen=True, slots=True)
class CleanupCount:
    """The number of rows that a rule would delete now."""

    name: CleanupName
    table: Annotated[str, Field("Table, with its schema.", _TABLE)]
    column: TimeColumn
    matching: Annotated[int, Field("Number of rows that would be deleted now.", 4210)]


@dataclass(frozen=True, slots=True)
class CleanupTable:
    """A table that a cleanup can delete from; `times` are its columns that hold a time."""

    name: Annotated[str, Field("Table, with its schema.", _TABLE)]
    times: Annotated[list[str], Field("Columns that hold a time.", ["created_at"])]


@dataclass(frozen=True, slots=True)
class RecipeInfo:
    """A ready-made cleanup for tables of this database. `prefix` is what precedes their usual
    names; `is_used` says whether cleanups delete from all of these tables by these columns."""

    name: Annotated[str, Field("Name.", "stale_session_cleanup")]
    description: Annotated[str, Field("What it deletes, and when.", "Expired sessions, every hour")]
    cron: Annotated[str, Field("Cron expression, in UTC.", "0 * * * *")]
    prefix: Annotated[str, Field("Schema, and what precedes the usual table names.", "public.")]
    rules: Annotated[list[CleanupRule], Field("Rules for the tables found.")] = field(
        default_factory=list
    )
    is_used: Annotated[
        bool, Field("Whether cleanups delete from these tables by these columns.", False)
    ] = False


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
