"""`[scheduler]` of rota.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Whether and how often a worker checks schedules."""

    enabled: Annotated[
        bool, Field(description="Whether workers of this process run the scheduler.")
    ] = True
    tick_seconds: Annotated[
        float,
        Field(
            ge=1,
            le=3600,
            description="Maximum interval between scheduler ticks when no notification arrives.",
        ),
    ] = 15.0
    burst_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=3600,
            description="Period over which starts are spread when more than ten schedules are due "
            "at once. 0: no spreading.",
        ),
    ] = 10.0
