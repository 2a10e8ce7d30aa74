"""Pages of what schedules have, and the request of a preview."""

from __future__ import annotations

from typing import Any

from rota.api.operations import body_of
from rota.api.schemas.views import page, view_of
from rota.model.fields import arguments_of
from rota.model.occurrence import OccurrenceInfo
from rota.model.schedule_edit import ManualRun, ScheduleEdit
from rota.model.schedule_fields import Timing
from rota.operations.reading import plan_behind
from rota.operations.schedules.reads import ScheduleReads

OccurrencePage = page(view_of(OccurrenceInfo))
EditPage = page(view_of(ScheduleEdit))
ManualPage = page(view_of(ManualRun))
# A timing, which is previewed in place of a schedule.
PREVIEWED = frozenset(Timing.__annotations__)
PreviewRequest: Any = body_of(
    "PreviewRequest",
    [
        one
        for one in arguments_of(plan_behind(ScheduleReads.preview))
        if one.name not in ("name", "tenant")
    ],
    "Timing to preview, and which of its times to list.",
)
