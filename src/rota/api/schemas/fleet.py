"""Calendars, settings, the clock."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rota.api.schemas.values import Instant, Reason
from rota.api.schemas.views import Body, examples, page, view
from rota.model.schedule_info import CalendarInfo

_AT = "2026-03-08T09:00:00Z"
_DEFINITION: dict[str, Any] = {
    "timezone": "Europe/Berlin", "holidays": ["2026-12-25"], "weekends": ["saturday", "sunday"],
}  # fmt: skip
CalendarView = view(
    CalendarInfo,
    "Calendar",
    {
        "name": "Name.",
        "description": "What it is for.",
        "definition": "Time zone, holidays, weekends and windows.",
        "updated_at": "When it was last changed.",
        "version": "Incremented with each change; also the ETag.",
        "schedules": "Number of schedules that use it.",
    },
    {
        "name": "office",
        "description": "",
        "definition": _DEFINITION,
        "updated_at": _AT,
        "version": 1,
        "schedules": 4,
    },
)
CalendarPage = page(CalendarView)


class NewCalendar(Body):
    """Calendar to create."""

    model_config = examples({"name": "office", "definition": _DEFINITION})

    name: str = Field(min_length=1, max_length=100, description="Name.")
    definition: dict[str, Any] = Field(description="Time zone, holidays, weekends and windows.")
    description: str = Field(default="", max_length=10_000, description="What it is for.")
    reason: Reason = None


class CalendarChanges(Body):
    """Fields to change."""

    model_config = examples({"definition": _DEFINITION})

    definition: dict[str, Any] | None = Field(
        default=None,
        description="Time zone, holidays, weekends and windows; replaces the whole definition.",
    )
    description: str | None = Field(default=None, max_length=10_000, description="What it is for.")
    reason: Reason = None


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
