"""Settings, the clock."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rota.api.schemas.values import Instant
from rota.api.schemas.views import Body, examples

_AT = "2026-03-08T09:00:00Z"


class Removed(Body):
    """The removed object."""

    model_config = examples({"name": "office"})

    name: str = Field(description="Name.")


class SettingView(Body):
    """One setting of this server."""

    model_config = examples(
        {
            "key": "worker.concurrency",
            "value": 16,
            "source": "default",
            "default": 16,
            "accepts": "a whole number from 1 to 1024",
            "variable": "ROTA_WORKER_CONCURRENCY",
            "description": "Slots: maximum concurrent attempts per worker process.",
        }
    )

    key: str = Field(description="Name.")
    value: Any = Field(description="Value; secrets are masked.")
    source: Literal["default", "file", "environment", "argument"] = Field(
        description="Source of the value."
    )
    default: Any = Field(description="Default value.")
    accepts: str = Field(description="Allowed values.")
    variable: str = Field(description="Its environment variable.")
    description: str = Field(description="What it means.")


class ClockView(Body):
    """Time of the database's clock."""

    model_config = examples({"now": _AT})

    now: Instant = Field(
        description="Current time of the database, which decides when runs are due."
    )
