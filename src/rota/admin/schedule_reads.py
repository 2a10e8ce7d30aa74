"""What one can ask about schedules: what they are, what comes, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from rota.admin import schedule_plans as plans
from rota.admin.face import Cursor, Face, command
from rota.admin.schedule_plans import Unsaved
from rota.model.list_filters import ScheduleFilters, ScheduleOrder, TimeOrder
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import Page
from rota.model.schedule_info import ScheduleInfo, TemplateInfo
from rota.model.strip import Strip
from rota.store import calendars, schedule_lists, schedules
from rota.store.plans import Plan
from rota.timing.load import Load
from rota.timing.preview import Row

Found = list[ScheduleInfo]
Templates = list[TemplateInfo]
History = list[OccurrenceInfo]
Rows = list[Row]


class ScheduleReads(Face):
    """Nothing here changes anything."""

    @command
    def list(
        self, *, order: ScheduleOrder = "name", **filters: Unpack[ScheduleFilters]
    ) -> Plan[Found]:
        """By tenant and `name`; or the one that is due `next`, that ran `last`, the `newest` or
        last `changed` one first. Narrowed by `job`, `tag`, `tenant`, `state` and `metadata`; Rota's
        own ones only with `system`."""
        return schedule_lists.list_schedules(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: ScheduleOrder = "name",
        cursor: Cursor = None,
        after_id: int | None = None,
        limit: int = 50,
        **filters: Unpack[ScheduleFilters],
    ) -> Plan[Page[ScheduleInfo]]:
        """A part of that list, and the cursor that leads to the next. In the order of names the
        last one's id leads there too: `after_id`."""
        return plans.page(order, cursor, after_id, limit, filters)

    @command
    def get(self, name: str, *, tenant: str = "") -> Plan[ScheduleInfo]:
        """ScheduleNotFound if there is none."""
        return schedules.find_schedule(name, tenant)

    @command
    def preview(
        self,
        name: str | None = None,
        *,
        tenant: str = "",
        count: int | None = None,
        after: datetime | None = None,
        until: datetime | None = None,
        viewer_zone: str | None = None,
        **timing: Unpack[Unsaved],
    ) -> Plan[Rows]:
        """The next times of a schedule, or of a timing that is not saved: ten of them, or `count`,
        or all up to `until`; after now, or `after`."""
        window: plans.Window = {
            "count": count, "after": after, "until": until, "viewer_zone": viewer_zone,
        }  # fmt: skip
        return plans.preview(name, tenant, timing, window)

    @command
    def history(
        self,
        name: str,
        *,
        tenant: str = "",
        decision: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        order: TimeOrder = "newest",
        limit: int = 50,
    ) -> Plan[History]:
        """What was decided about its times, also of one that is deleted: since and before an
        instant."""
        window: plans.Stretch = {"decision": decision, "since": since, "before": before}
        return plans.history(name, tenant, window, order, limit)

    @command
    def history_page(
        self,
        name: str,
        *,
        tenant: str = "",
        decision: str | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
        order: TimeOrder = "newest",
        cursor: Cursor = None,
        limit: int = 50,
    ) -> Plan[Page[OccurrenceInfo]]:
        """A part of that list, and the cursor that leads to the next."""
        window: plans.Stretch = {"decision": decision, "since": since, "before": before}
        return plans.history_page(name, tenant, window, order, cursor, limit)

    @command
    def strips(self, ids: Sequence[int], *, limit: int = 30) -> Plan[dict[int, Strip]]:
        """The last times of each of these, as cells; those without any are left out."""
        return schedule_lists.read_strips(ids, limit)

    @command
    def simulate(
        self,
        days: int = 7,
        *,
        timezone: str = "UTC",
        tenant: str | None = None,
        system: bool = False,
        least: int = 5,
    ) -> Plan[Load]:
        """How many runs the coming days bring, where they pile up, and which may overlap."""
        return plans.simulate(days, timezone, tenant, system, least)

    @command
    def templates(self) -> Plan[Templates]:
        """Timings to start from, by name."""
        return calendars.list_templates()

    @command
    def templates_page(self, *, cursor: Cursor = None, limit: int = 50) -> Plan[Page[TemplateInfo]]:
        """A part of that list, and the cursor that leads to the next."""
        return calendars.page_templates(cursor=cursor, limit=limit)

    @command
    def template(self, name: str) -> Plan[TemplateInfo]:
        """TemplateNotFound if there is none."""
        return calendars.find_template(name)
