"""Calendars: reading them, and what people do with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from rota.errors import TimingError
from rota.model.calendar import (
    CalendarChanges,
    CalendarInfo,
    CalendarName,
    Definition,
    Description,
    Order,
)
from rota.model.formatting import plural
from rota.model.page import Page
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, Version, operation
from rota.postgres.audit import because
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars
from rota.timing.calendar_json import from_json, to_json

Found = list[CalendarInfo]


def _created(made: CalendarInfo, is_changed: bool, at: ShowTime) -> str:
    return "created"


def _updated(made: CalendarInfo, is_changed: bool, at: ShowTime) -> str:
    return "updated"


def _deleted(result: None, is_changed: bool, at: ShowTime) -> str:
    return "deleted"


def _before_delete(it: CalendarInfo) -> str:
    if not it.schedules:
        return "No schedule uses it. The audit keeps its definition."
    uses = plural(it.schedules, "schedule uses it", "schedules use it")
    return f"{uses}: assign them another calendar or none first."


class CalendarCommands(Commands):
    """A definition is `{"timezone", "holidays", "weekends", "windows"}`; TimingError names the part
    that is invalid."""

    noun = Noun("calendar", "calendars", CalendarInfo, TimingError, home="/calendar")

    @command
    def list(self, *, order: Order = "name") -> Plan[Found]:
        """List calendars and how many schedules use each, sorted by name or by `order`."""
        return calendars.list_calendars(order=order)

    @command
    def page(
        self, *, order: Order = "name", cursor: Cursor = None, limit: int = 50
    ) -> Plan[Page[CalendarInfo]]:
        """One page of that list, with the cursor of the next."""
        return calendars.page_calendars(order=order, cursor=cursor, limit=limit)

    @command
    def get(self, name: CalendarName) -> Plan[CalendarInfo]:
        """Get one calendar.

        Raises CalendarNotFound if there is none."""
        return calendars.find_calendar(name)

    @operation(says=_created, creates=True, status=201, by_hand=("web",))
    def create(
        self,
        name: CalendarName,
        definition: Definition,
        description: Description = "",
        *,
        reason: Reason = None,
    ) -> Plan[CalendarInfo]:
        """Create a calendar.

        Raises WrongState if the name is taken."""
        checked = _checked(name, definition)
        plan = calendars.create_calendar(name, description, checked, actor=self.actor)
        yield from because(reason, plan)
        return (yield from calendars.find_calendar(name))

    @operation(says=_updated, by_hand=("web",))
    def update(
        self,
        name: CalendarName,
        *,
        version: Version = None,
        reason: Reason = None,
        **changes: Unpack[CalendarChanges],
    ) -> Plan[CalendarInfo]:
        """Update a calendar for every schedule that uses it, from the next tick on.

        `app.calendars.update("office", definition={"weekends": True})`. Raises VersionConflict if
        the calendar is not at `version`."""
        definition = changes.get("definition")
        checked = None if definition is None else _checked(name, definition)
        description = changes.get("description")
        plan = calendars.update_calendar(
            name, description, checked, version=version, actor=self.actor
        )
        yield from because(reason, plan)
        return (yield from calendars.find_calendar(name))

    @operation(says=_deleted, asks=_before_delete, is_dangerous=True, is_reason_optional=True)
    def delete(
        self, name: CalendarName, *, version: Version = None, reason: Reason = None
    ) -> Plan[None]:
        """Delete a calendar that no schedule uses.

        Raises WrongState while a schedule uses it, and VersionConflict if it is not at
        `version`."""
        plan = calendars.delete_calendar(name, version=version, actor=self.actor)
        return because(reason, plan)


class Calendars(CalendarCommands, AsyncCommands):
    """`app.calendars`"""

    @property
    def sync(self) -> SyncCalendars:
        return SyncCalendars(self.database, self.actor)


class SyncCalendars(CalendarCommands, SyncCommands):
    """`app.calendars.sync`"""


def _checked(name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition as it is stored: without the name, which is a column."""
    stored = to_json(from_json(dict(definition) | {"name": name}))
    del stored["name"]
    return stored
