"""Commands about calendars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.errors import TimingError
from rota.model.list_filters import CalendarOrder
from rota.model.page import Page
from rota.model.schedule_info import CalendarInfo
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.postgres.audit import because
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars
from rota.timing.calendar_json import from_json, to_json

Found = list[CalendarInfo]


class CalendarCommands(Commands):
    """A definition is `{"timezone", "holidays", "weekends", "windows"}`; TimingError names the part
    that is invalid."""

    @command
    def list(self, *, order: CalendarOrder = "name") -> Plan[Found]:
        """List calendars by `name`, or the most recently `changed` first, with the number of
        schedules that use each."""
        return calendars.list_calendars(order=order)

    @command
    def page(
        self, *, order: CalendarOrder = "name", cursor: Cursor = None, limit: int = 50
    ) -> Plan[Page[CalendarInfo]]:
        """One page of that list, with the cursor of the next."""
        return calendars.page_calendars(order=order, cursor=cursor, limit=limit)

    @command
    def get(self, name: str) -> Plan[CalendarInfo]:
        """Return one calendar. Raises CalendarNotFound if there is none."""
        return calendars.find_calendar(name)

    @command
    def create(
        self,
        name: str,
        definition: Mapping[str, Any],
        description: str = "",
        *,
        reason: str | None = None,
    ) -> Plan[None]:
        """Create a calendar. Raises WrongState if the name is taken."""
        checked = _checked(name, definition)
        plan = calendars.create_calendar(name, description, checked, actor=self.actor)
        return because(reason, plan)

    @command
    def update(
        self,
        name: str,
        definition: Mapping[str, Any] | None = None,
        description: str | None = None,
        *,
        version: int | None = None,
        reason: str | None = None,
    ) -> Plan[None]:
        """Change a calendar, from the next tick of every schedule that uses it. Raises
        VersionConflict if the calendar is not at `version`."""
        checked = None if definition is None else _checked(name, definition)
        plan = calendars.update_calendar(
            name, description, checked, version=version, actor=self.actor
        )
        return because(reason, plan)

    @command
    def delete(
        self, name: str, *, version: int | None = None, reason: str | None = None
    ) -> Plan[None]:
        """Delete a calendar. Raises WrongState while a schedule uses it, and VersionConflict if it
        is not at `version`."""
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
    if not isinstance(definition, Mapping):
        raise TimingError(f"the definition of a calendar must be an object, not {definition!r}")
    if len(str(name)) > 100:
        raise TimingError("the name of a calendar must have at most 100 characters")
    stored = to_json(from_json(dict(definition) | {"name": name}))
    del stored["name"]
    return stored
