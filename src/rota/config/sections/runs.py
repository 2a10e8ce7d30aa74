"""`[runs]` of rota.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rota.config.sections.shown import KIB, MIB, YEAR
from rota.model.backoff import Backoff, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Defaults for runs, which jobs may override, and size limits."""

    max_attempts: Annotated[
        int, Field(ge=1, le=100, description="Maximum attempts per run. 1: no retries.")
    ] = 3
    timeout_seconds: Annotated[
        float | None,
        Field(
            ge=0.1,
            le=YEAR,
            description="Timeout of each attempt. Not set: no limit.",
            examples=[60.0],
        ),
    ] = None
    payload_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Maximum payload size, as JSON.")
    ] = MIB
    result_bytes: Annotated[
        int, Field(ge=KIB, le=64 * MIB, description="Maximum size of a stored result, as JSON.")
    ] = MIB
    error_bytes: Annotated[
        int,
        Field(
            ge=256,
            le=MIB,
            description="Maximum size of a stored error message, and of a traceback; longer ones "
            "are truncated.",
        ),
    ] = 16 * KIB
    backoff: Annotated[
        Kind, Field(description="How the delay before a retry grows with each attempt.")
    ] = "exponential"
    backoff_base_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Delay after the first attempt.")
    ] = 5.0
    backoff_factor: Annotated[
        float,
        Field(
            ge=1,
            le=1000,
            description="Multiplier of the exponential delay from one attempt to the next.",
        ),
    ] = 2.0
    backoff_cap_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Maximum delay, before jitter.")
    ] = 300.0
    backoff_jitter_seconds: Annotated[
        float, Field(ge=0, le=YEAR, description="Maximum random jitter added to a delay.")
    ] = 1.0

    def default_backoff(self) -> Backoff:
        """The backoff of jobs that declare none."""
        return Backoff(
            kind=self.backoff,
            base=self.backoff_base_seconds,
            factor=self.backoff_factor,
            cap=self.backoff_cap_seconds,
            jitter=self.backoff_jitter_seconds,
        )
