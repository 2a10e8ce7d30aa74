"""`[logs]` of rota.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rota.config.sections.shown import KIB, MIB, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Which log lines of handlers are stored."""

    stored_level: Annotated[
        Level, Field(description="Minimum level of log lines that are stored.")
    ] = "info"
    capture: Annotated[
        bool,
        Field(
            description="Whether to store log lines that handlers write through logging and "
            "structlog, in addition to `ctx.log`. Jobs may override it."
        ),
    ] = False
    buffer_lines: Annotated[
        int,
        Field(
            ge=100,
            le=1_000_000,
            description="Maximum number of log lines buffered while the database is unavailable; "
            "further lines are dropped.",
        ),
    ] = 10_000
    buffer_bytes: Annotated[
        int,
        Field(
            ge=MIB,
            le=1024 * MIB,
            description="Maximum memory for buffered log lines; further lines are dropped.",
        ),
    ] = 64 * MIB
    flush_seconds: Annotated[
        float, Field(ge=0.1, le=60, description="Maximum time before a log line is stored.")
    ] = 5.0
    line_bytes: Annotated[
        int,
        Field(
            ge=256,
            le=MIB,
            description="Maximum size of a stored log line; longer ones are truncated and marked.",
        ),
    ] = 16 * KIB
