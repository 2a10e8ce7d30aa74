"""Timing templates: their fields, and the record of a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rota.model.fields import Field
from rota.model.schedule_fields import CronExpression

TemplateName = Annotated[
    str, Field("Template name.", "Weekdays 9 AM", shortest=1, longest=100, metavar="NAME")
]
Description = Annotated[
    str, Field("What it is for.", "Monday to Friday at nine", longest=10_000, metavar="TEXT")
]


@dataclass(frozen=True, slots=True)
class TemplateInfo:
    """A timing template: a cron expression with a name, for new schedules."""

    name: TemplateName
    cron: CronExpression
    description: Description
    version: Annotated[int, Field("Incremented with each change; also the ETag.", 1)]
