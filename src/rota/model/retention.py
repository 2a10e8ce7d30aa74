"""Retention: how long ended runs are kept, by job, and what a pass has removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from rota.model.fields import Field

MOST_DAYS = 36_500
MOST_COUNT = 1_000_000_000


Hurry = Annotated[bool, Field("Do not pause between batches. Faster, but slows busy workers.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the runs and log lines of a job are kept; None: as configured.

    `count` keeps the newest runs, `days` those that are not older; whichever removes more. The
    fields with `failed` apply to failed runs and their lines; without them, `days` applies to those
    too.
    """

    days: int | None = None
    count: int | None = None
    failed_days: int | None = None
    failed_count: int | None = None
    log_days: int | None = None
    log_count: int | None = None
    failed_log_days: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            most = MOST_DAYS if field.name.endswith("days") else MOST_COUNT
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_number and 1 <= value <= most):
                raise ValueError(
                    f"{field.name} must be a whole number from 1 to {most}, not {value!r}"
                )

    @classmethod
    def parse(cls, given: Retention | Mapping[str, Any]) -> Retention:
        """Raise ValueError if the value is not a retention."""
        if isinstance(given, Retention):
            return given
        if not isinstance(given, Mapping):
            raise ValueError(f"retention must be a rota.Retention or a mapping, not {given!r}")
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(
                    f"retention: unknown option {name}; choose from {', '.join(known)}"
                )
        return cls(**given)

    @classmethod
    def stored(cls, given: Mapping[str, Any] | None) -> Self:
        """Read the stored form, which the database has checked. Values that bypassed the check
        remove nothing."""
        try:
            return cls(**given) if given else cls()
        except (TypeError, ValueError):
            return cls(days=MOST_DAYS, failed_days=MOST_DAYS)

    def to_json(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def run_days(self, is_failed: bool) -> int | None:
        return self.failed_days or self.days if is_failed else self.days


@dataclass(frozen=True, slots=True)
class RetentionItem:
    """A partition dropped as a whole, or rows deleted from a table. For a partition, `rows` is an
    estimate of the database. `note`: why it was not deleted."""

    action: Annotated[
        Literal["drop", "delete"], Field("Whether a whole partition or rows are deleted.", "drop")
    ]
    table: Annotated[str, Field("Table.", "ended_runs")]
    rows: Annotated[int, Field("Number of rows; an estimate for a partition.", 120_000)]
    partition: Annotated[str | None, Field("Partition.", "ended_runs_2026_02_02")] = None
    job: Annotated[str | None, Field("Job.")] = None
    outcome: Annotated[str | None, Field("Outcome of the runs.")] = None
    until: Annotated[
        datetime | None, Field("Data that ended before this time.", "2026-02-09T00:00:00Z")
    ] = None
    bytes: Annotated[int | None, Field("Size in bytes.", 48_000_000)] = None
    note: Annotated[str | None, Field("Why it was not deleted.")] = None
    tenant: Annotated[str | None, Field("Tenant.")] = None


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What was deleted; after a dry run, what would be deleted."""

    is_dry_run: Annotated[bool, Field("Whether nothing was removed.", True)]
    items: Annotated[list[RetentionItem], Field("What was removed, or would be.")]

    @property
    def rows(self) -> int:
        return sum(item.rows for item in self.items if item.note is None)
