"""`[retention]` of rota.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long history is kept. Jobs may override it."""

    run_days: Annotated[
        int, Field(ge=1, le=36_500, description="Days to keep finished runs and their attempts.")
    ] = 30
    failed_run_days: Annotated[
        int | None,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep failed runs. Default: `run_days`.",
            examples=[90],
        ),
    ] = None
    log_days: Annotated[int, Field(ge=1, le=36_500, description="Days to keep log lines.")] = 7
    occurrence_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep occurrences (the ledger of schedules), finished schedules, "
            "backfills and their times, and finished bulk actions.",
        ),
    ] = 90
    event_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep events with their deliveries, and rejected webhook requests.",
        ),
    ] = 30
    rollup_days: Annotated[
        int, Field(ge=1, le=36_500, description="Days to keep roll-ups, the counts behind charts.")
    ] = 400
    audit_days: Annotated[
        int | None,
        Field(
            ge=1,
            le=36_500,
            description="Days to keep the audit trail. Not set: forever.",
            examples=[3650],
        ),
    ] = None
    short_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Upper bound of the short retention class: runs kept no longer than this "
            "are stored in separate partitions.",
        ),
    ] = 7
    long_days: Annotated[
        int,
        Field(
            ge=1,
            le=36_500,
            description="Upper bound of the long retention class: no job may keep runs longer "
            "than this.",
        ),
    ] = 365
