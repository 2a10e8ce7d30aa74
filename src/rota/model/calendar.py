"""Calendars: their fields, and a calendar as a reader sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from rota.model.fields import Field

CalendarOrder = Literal["name", "changed"]

_DEFINITION = Field(
    "JSON object with timezone, holidays, weekends and windows.",
    {"timezone": "Europe/Berlin", "holidays": ["2026-12-25"], "weekends": ["SAT", "SUN"]},
    metavar="JSON|@FILE|-",
)
CalendarName = Annotated[str, Field("Calendar name.", "office", longest=100)]
Definition = Annotated[Mapping[str, Any], _DEFINITION]
Description = Annotated[str, Field("What it is for.", "Public holidays", longest=10_000)]
Order = Annotated[
    CalendarOrder, Field("Sort order: by name, or most recently changed first.", "name")
]


class CalendarChanges(TypedDict, total=False):
    """Fields of a calendar; omitted ones do not change. A definition is replaced as a whole."""

    definition: Definition
    description: Description


@dataclass(frozen=True, slots=True)
class CalendarInfo:
    """Days and windows in which schedules do not run. `schedules` is the number of schedules that
    use it."""

    name: CalendarName
    description: Description
    definition: Annotated[dict[str, Any], _DEFINITION]
    updated_at: Annotated[datetime, Field("When it was last changed.")]
    version: Annotated[int, Field("Incremented with each change; also the ETag.", 1)]
    schedules: Annotated[int, Field("Number of schedules that use it.", 4)]
