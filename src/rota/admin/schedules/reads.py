"""What one can ask about schedules: what they are, what comes, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from rota.admin.commands import Commands, Cursor, command
from rota.admin.schedules import history as schedule_history
from rota.admin.schedules import load as schedule_load
from rota.admin.schedules import plans
from rota.admin.schedules.load import Lane
from rota.admin.schedules.plans import Unsaved
from rota.admin.scope import Scope
from rota.model.documents import ScheduleDocuments
from rota.model.list_filters import LedgerPart, ScheduleFilters, ScheduleOrder, TimeOrder
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import Page
from rota.model.schedule_edit import ManualRun, ScheduleEdit
from rota.model.schedule_info import ScheduleInfo, TemplateInfo
from rota.model.strip import Strip
from rota.store.plans import Plan
from rota.store.schedules import calendars, schedules
from rota.store.schedules import edits as schedule_edits
from rota.store.schedules import lists as schedule_lists
from rota.timing.load import HourLoad, Load
from rota.timing.preview import Row

Found = list[ScheduleInfo]
Templates = list[TemplateInfo]
History = list[OccurrenceInfo]
Rows = list[Row]
Manual = list[ManualRun]


class ScheduleReads(Commands):
    """Nothing here changes anything."""

    scope = Scope(
        takes=frozenset(
            {"list", "page", "get", "preview", "history", "history_page", "edits", "edit"}
            | {"manual", "counts", "simulate", "hour", "lanes", "create", "put", "update"}
            | {"revert", "delete", "enable", "disable", "pause", "resume", "trigger"}
            | {"reschedule", "backfill", "documents"}
        ),
        shared=frozenset({"templates", "templates_page", "template"}),
    )

    @command
    def list(
        self, *, order: ScheduleOrder = "name", **filters: Unpack[ScheduleFilters]
    ) -> Plan[Found]:
        """By tenant and `name`; or the one that is due `next`, that ran `last`, the `newest` or
        last `changed` one first. Narrowed by `job`, `queue`, `tag`, `tenant`, `state`, `text`,
        `calendar` and `metadata`; `attention` are those that need somebody; Rota's own ones only
        with `system`."""
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
    def documents(self, name: str, *, tenant: str = "") -> Plan[ScheduleDocuments]:
        """Payload and metadata of its runs as text, with the digits that they have: a reader of
        JSON may round them. ScheduleNotFound if there is none."""
        return schedules.find_documents(name, tenant)

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
        only: LedgerPart | None = None,
        order: TimeOrder = "newest",
        limit: int = 50,
    ) -> Plan[History]:
        """What was decided about its times, also of one that is deleted: since and before an
        instant. `only="exceptions"` leaves out what simply ran, `only="backfilled"` all that no
        backfill has filled in."""
        window: plans.Stretch = {
            "decision": decision, "since": since, "before": before, "only": only,
        }  # fmt: skip
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
        only: LedgerPart | None = None,
        order: TimeOrder = "newest",
        cursor: Cursor = None,
        limit: int = 50,
    ) -> Plan[Page[OccurrenceInfo]]:
        """A part of that list, and the cursor that leads to the next."""
        window: plans.Stretch = {
            "decision": decision, "since": since, "before": before, "only": only,
        }  # fmt: skip
        return plans.history_page(name, tenant, window, order, cursor, limit)

    @command
    def edits(
        self, name: str, *, tenant: str = "", cursor: Cursor = None, limit: int = 20
    ) -> Plan[Page[ScheduleEdit]]:
        """Who changed what of it, and when, the newest first: from the audit."""
        return schedule_history.page(name, tenant, cursor, limit)

    @command
    def edit(self, name: str, entry_id: int, *, tenant: str = "") -> Plan[ScheduleEdit]:
        """One of them; AuditEntryNotFound if there is none."""
        return schedule_history.find(name, tenant, entry_id)

    @command
    def manual(self, name: str, *, tenant: str = "", limit: int = 10) -> Plan[Manual]:
        """What people ran beside its times: single runs and backfills, the newest first."""
        return schedule_edits.list_manual(name, tenant, limit)

    @command
    def strips(self, ids: Sequence[int], *, limit: int = 30) -> Plan[dict[int, Strip]]:
        """The last times of each of these, as cells; those without any are left out."""
        return schedule_lists.read_strips(ids, limit)

    @command
    def counts(self, **filters: Unpack[ScheduleFilters]) -> Plan[dict[str, int]]:
        """How many of those that fit are in each state, up to 20,000 of them."""
        return schedule_lists.count_states(filters)

    @command
    def simulate(
        self,
        days: int = 7,
        *,
        timezone: str = "UTC",
        least: int = 5,
        **filters: Unpack[ScheduleFilters],
    ) -> Plan[Load]:
        """How many runs the coming days bring, where they pile up, and which may overlap: of all
        schedules, or of those that fit the filters of the list."""
        return schedule_load.simulate(days, timezone, least, filters)

    @command
    def hour(self, at: datetime, **filters: Unpack[ScheduleFilters]) -> Plan[HourLoad]:
        """Which schedules start when in the hour that begins at `at`."""
        return schedule_load.hour(at, filters)

    @command
    def lanes(
        self,
        after: datetime,
        *,
        hours: int = 24,
        limit: int = 30,
        **filters: Unpack[ScheduleFilters],
    ) -> Plan[Page[Lane]]:
        """The starts of each of those that are due first, in so many hours from `after` on."""
        return schedule_load.lanes(after, hours, limit, filters)

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
