"""Calendars and templates that schedules share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from rota.errors import CalendarNotFound, TimingError, WrongState
from rota.model.schedule_info import CalendarInfo, TemplateInfo
from rota.store.audit import write_audit
from rota.store.plans import Ask, Plan
from rota.store.versions import expect_version


def list_calendars() -> Plan[list[CalendarInfo]]:
    rows = yield Ask("calendars/list", {"name": None})
    return [CalendarInfo(**row) for row in rows]


def find_calendar(name: str) -> Plan[CalendarInfo]:
    rows = yield Ask("calendars/list", {"name": name})
    if not rows:
        known = yield from list_calendars()
        near = get_close_matches(name, [one.name for one in known], 1)
        hint = f"did you mean {near[0]}?" if near else "`rota calendars list` shows those that are"
        raise CalendarNotFound(f'no calendar is named "{name}"', hint=hint)
    return CalendarInfo(**rows[0])


def create_calendar(
    name: str, description: str, definition: Mapping[str, Any], *, actor: str | None
) -> Plan[None]:
    params = {"name": name, "description": description, "definition": json.dumps(definition)}
    if not (yield Ask("calendars/create", params)):
        raise WrongState(f'calendar "{name}" exists already', hint="update it instead")
    after = {"description": description, "definition": definition}
    yield from write_audit(actor, "calendar.created", "calendar", name, after=after)


def update_calendar(
    name: str,
    description: str | None,
    definition: Mapping[str, Any] | None,
    *,
    version: int | None,
    actor: str | None,
) -> Plan[None]:
    """What is None stays as it is."""
    yield from find_calendar(name)
    yield from expect_version("calendar", name, version)
    stored = yield from find_calendar(name)
    before = {"description": stored.description, "definition": stored.definition}
    after = before | {
        key: value
        for key, value in {"description": description, "definition": definition}.items()
        if value is not None
    }
    params = {"name": name} | after | {"definition": json.dumps(after["definition"])}
    if (yield Ask("calendars/update", params)):
        yield from write_audit(
            actor, "calendar.updated", "calendar", name, before=before, after=after
        )


def delete_calendar(name: str, *, actor: str | None) -> Plan[None]:
    stored = yield from find_calendar(name)
    if stored.schedules:
        raise WrongState(
            f'calendar "{name}" is followed by {stored.schedules} schedules',
            hint="give them another calendar, or none, first",
        )
    yield Ask("calendars/delete", {"name": name})
    before = {"description": stored.description, "definition": stored.definition}
    yield from write_audit(actor, "calendar.deleted", "calendar", name, before=before)


def list_templates() -> Plan[list[TemplateInfo]]:
    rows = yield Ask("templates/list", {"name": None})
    return [TemplateInfo(**row) for row in rows]


def find_template(name: str) -> Plan[TemplateInfo]:
    rows = yield Ask("templates/list", {"name": name})
    if not rows:
        known = yield from list_templates()
        near = get_close_matches(name, [one.name for one in known], 1, 0.4)
        hint = f"did you mean {near[0]}?" if near else "`rota schedules templates` lists them"
        raise TimingError(f'no template is named "{name}"', hint=hint)
    return TemplateInfo(**rows[0])


def add_template(name: str, cron: str, description: str, *, actor: str | None) -> Plan[None]:
    yield Ask("templates/add", {"name": name, "cron": cron, "description": description})
    after = {"cron": cron, "description": description}
    yield from write_audit(actor, "template.added", "template", name, after=after)


def remove_template(name: str, *, actor: str | None) -> Plan[None]:
    stored = yield from find_template(name)
    yield Ask("templates/remove", {"name": name})
    before = {"cron": stored.cron, "description": stored.description}
    yield from write_audit(actor, "template.removed", "template", name, before=before)
