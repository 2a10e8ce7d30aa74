"""Reading schedules: their settings, coming times and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Unpack

from rota.errors import TimingError
from rota.model.documents import ScheduleDocuments
from rota.model.fields import Field
from rota.model.list_filters import LedgerPart, ScheduleFilters, ScheduleOrder, TimeOrder
from rota.model.occurrence import OccurrenceInfo
from rota.model.page import Page
from rota.model.schedule_edit import ManualRun, Override, ScheduleEdit
from rota.model.schedule_fields import (
    After,
    Count,
    PreviewName,
    ScheduleName,
    ScheduleTenant,
    TimingKeywords,
    Until,
    ViewerZone,
)
from rota.model.schedule_info import ScheduleInfo
from rota.model.strip import Strip
from rota.operations.commands import Commands, Cursor, command
from rota.operations.reading import reading
from rota.operations.schedules import history as schedule_history
from rota.operations.schedules import ledger, plans
from rota.operations.schedules import load as schedule_load
from rota.operations.schedules.load import Lane
from rota.operations.scope import Scope
from rota.postgres.plans import Plan
from rota.postgres.schedules import edits as schedule_edits
from rota.postgres.schedules import lists as schedule_lists
from rota.postgres.schedules import schedules
from rota.timing.load import HourLoad, Load
from rota.timing.preview import PreviewRow

Found = list[ScheduleInfo]
History = list[OccurrenceInfo]
Rows = list[PreviewRow]
Overrides = list[Override]
Order = Annotated[
    ScheduleOrder,
    Field("Sort order: by name, next due, last run, newest, or most recently changed.", "name"),
]

Days = Annotated[int, Field("Number of days from now.", 7, least=1, most=31)]
LoadZone = Annotated[
    str,
    Field(
        "Time zone of the days and times.", "Europe/Paris", shortest=1, longest=100, metavar="ZONE"
    ),
]
PileUp = Annotated[
    int, Field("Starts per minute that count as a pile-up.", 5, least=2, most=10_000)
]


def _overrides(name: str, tenant: str) -> Plan[Overrides]:
    yield from schedules.find_schedule(name, tenant)
    return (yield from schedules.find_overrides(name, tenant))


class ScheduleReads(Commands):
    """The commands that only read."""

    scope = Scope(
        takes=frozenset(
            {"list", "page", "get", "preview", "history", "history_page", "edits", "edit"}
            | {"manual", "counts", "simulate", "hour", "lanes", "create", "put", "update"}
            | {"revert", "delete", "enable", "disable", "pause", "resume", "trigger"}
            | {"reschedule", "backfill", "documents", "overrides"}
        ),
    )

    @command
    def list(self, *, order: Order = "name", **filters: Unpack[ScheduleFilters]) -> Plan[Found]:
        """List schedules, sorted by tenant and name or by `order`.

        `metadata` has values that must be present, compared as text. `states` lists those in any of
        several states."""
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
        """One page of that list, with the cursor of the next. In the order of names, `after_id`,
        the id of the last schedule, can be used instead of a cursor."""
        return plans.page(order, cursor, after_id, limit, filters)

    @command
    def get(self, name: ScheduleName, *, tenant: ScheduleTenant = "") -> Plan[ScheduleInfo]:
        """Get one schedule: timing, policies, next run time and results.

        Raises ScheduleNotFound if there is none."""
        return schedules.find_schedule(name, tenant)

    @command
    def documents(self, name: str, *, tenant: str = "") -> Plan[ScheduleDocuments]:
        """Payload and metadata of its runs as text with all digits, which JSON readers may round.
        Raises ScheduleNotFound if there is none."""
        return schedules.find_documents(name, tenant)

    @command
    def overrides(self, name: str, *, tenant: str = "") -> Plan[Overrides]:
        """The fields of a declared schedule that operators have changed, with what the code says;
        `update(name, reset=…)` resets them. Raises ScheduleNotFound if there is none."""
        return _overrides(name, tenant)

    @reading(TimingError)
    def preview(
        self,
        name: PreviewName = None,
        *,
        tenant: ScheduleTenant = "",
        count: Count = None,
        after: After = None,
        until: Until = None,
        viewer_zone: ViewerZone = None,
        **timing: Unpack[TimingKeywords],
    ) -> Plan[Rows]:
        """Preview the next run times of a schedule or of a timing that is not saved. Clock changes
        and closed days are noted."""
        return plans.preview(
            name, tenant, timing, plans.PreviewRange(count, after, until, viewer_zone)
        )

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
        manual: bool = False,
        order: TimeOrder = "newest",
        limit: int = 50,
    ) -> Plan[History]:
        """The decisions about its times, also for a deleted schedule, from `since` and before
        `before`. `only="exceptions"` omits times that ran normally, `only="backfilled"` returns
        only times that a backfill has filled in. `manual=True` adds what people ran beside its
        times, at the time they asked: `decision` is `triggered` or `backfilled`."""
        window: ledger.LedgerFilter = {
            "decision": decision,
            "since": since,
            "before": before,
            "only": only,
            "manual": manual,
        }
        return ledger.history(name, tenant, window, order, limit)

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
        manual: bool = False,
        order: TimeOrder = "newest",
        cursor: Cursor = None,
        limit: int = 50,
    ) -> Plan[Page[OccurrenceInfo]]:
        """One page of that list, with the cursor of the next."""
        window: ledger.LedgerFilter = {
            "decision": decision,
            "since": since,
            "before": before,
            "only": only,
            "manual": manual,
        }
        return ledger.history_page(name, tenant, window, order, cursor, limit)

    @command
    def edits(
        self, name: str, *, tenant: str = "", cursor: Cursor = None, limit: int = 20
    ) -> Plan[Page[ScheduleEdit]]:
        """One page of its changes from the audit, newest first: who changed what, and when."""
        return schedule_history.page(name, tenant, cursor, limit)

    @command
    def edit(self, name: str, entry_id: int, *, tenant: str = "") -> Plan[ScheduleEdit]:
        """Return one edit. Raises AuditEntryNotFound if there is none."""
        return schedule_history.find(name, tenant, entry_id)

    @command
    def manual(
        self, name: str, *, tenant: str = "", cursor: Cursor = None, limit: int = 20
    ) -> Plan[Page[ManualRun]]:
        """One page of the runs that people started in addition to its times: single runs and
        backfills, newest first."""
        return schedule_edits.page_manual(name, tenant, cursor=cursor, limit=limit)

    @command
    def strips(self, ids: Sequence[int], *, limit: int = 30) -> Plan[dict[int, Strip]]:
        """The most recent times of each of these schedules, as cells; schedules without any are
        omitted."""
        return schedule_lists.read_strips(ids, limit)

    @command
    def counts(self, **filters: Unpack[ScheduleFilters]) -> Plan[dict[str, int]]:
        """The number of matching schedules in each state, counted up to 20,000."""
        return schedule_lists.count_states(filters)

    @reading(TimingError)
    def simulate(
        self,
        days: Days = 7,
        *,
        timezone: LoadZone = "UTC",
        least: PileUp = 5,
        **filters: Unpack[ScheduleFilters],
    ) -> Plan[Load]:
        """Forecast the load of the coming days: runs by hour, pile-ups, likely overlaps and
        suggestions.

        Of all schedules, or of those that match the filters of the list."""
        return schedule_load.simulate(days, timezone, least, filters)

    @command
    def hour(self, at: datetime, **filters: Unpack[ScheduleFilters]) -> Plan[HourLoad]:
        """Which schedules start, and when, in the hour that begins at `at`."""
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
        """The starts of the schedules that are due first, within `hours` after `after`."""
        return schedule_load.lanes(after, hours, limit, filters)
