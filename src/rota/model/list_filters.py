"""The filters and orders of the lists of schedules and of their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from rota.model.fields import Field, Plain
from rota.model.states import ScheduleState

ScheduleOrder = Literal["name", "next", "last", "newest", "changed"]
TimeOrder = Literal["newest", "oldest"]
LedgerPart = Literal["exceptions", "backfilled"]


class ScheduleFilters(TypedDict, total=False):
    """Filters of `app.schedules.list`."""

    job: Annotated[str | None, Field("Filter by job.", "send_digest")]
    queue: Annotated[
        str | None, Field("Only schedules whose runs go to this queue.", "mail", longest=100)
    ]
    tag: Annotated[str | None, Field("Filter by tag.", "mail", longest=100)]
    tenant: Annotated[str | None, Field("Filter by tenant.", "acme")]
    state: Annotated[ScheduleState | None, Field("Filter by state.", "active", metavar="STATE")]
    text: Annotated[str | None, Field("Text in the name, job, description or time zone.", "digest")]
    calendar: Annotated[str | None, Field("Only schedules that use this calendar.", "office")]
    metadata: Annotated[
        Mapping[str, Plain] | None, Field("Metadata key and value, e.g. team:billing.")
    ]
    attention: Annotated[
        bool,
        Field(
            "Only schedules that need attention: late, missed, parked, orphaned, paused by Rota.",
            False,
        ),
    ]
    system: Annotated[bool, Field("Include Rota's own schedules.", False)]
    states: Sequence[str] | None  # several states, as in `app.runs.list`
