"""Calendars and templates that schedules share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import CalendarNotFound, TemplateNotFound, WrongState
from rota.model.calendar import CalendarInfo, CalendarOrder
from rota.model.formatting import plural
from rota.model.nearest import listed, nearest
from rota.model.page import Page
from rota.model.template import TemplateInfo
from rota.postgres.audit import act_as
from rota.postgres.pages import check_order, read_all, read_page
from rota.postgres.plans import Execute, Plan
from rota.postgres.versions import expect_version


def list_calendars(*, order: str = "name", name: str | None = None) -> Plan[list[CalendarInfo]]:
    order = check_order(order, CalendarOrder)
    return read_all("calendars/list", {"name": name}, CalendarInfo, order=order)


def page_calendars(
    *, order: str, cursor: Sequence[Any] | None, limit: int
) -> Plan[Page[CalendarInfo]]:
    order, params = check_order(order, CalendarOrder), {"name": None}
    return read_page(
        "calendars/list", params, CalendarInfo, order=order, cursor=cursor, limit=limit
    )


def find_calendar(name: str) -> Plan[CalendarInfo]:
    found = yield from list_calendars(name=name)
    if not found:
        known = yield from list_calendars()
        hint = nearest(name, [calendar.name for calendar in known], listed("calendars"))
        raise CalendarNotFound(f'no calendar is named "{name}"', hint=hint)
    return found[0]


def create_calendar(
    name: str, description: str, definition: Mapping[str, Any], *, actor: str | None
) -> Plan[None]:
    params = {"name": name, "description": description, "definition": json.dumps(definition)}
    yield from act_as(actor)
    if not (yield Execute("calendars/create", params)):
        raise WrongState(f'calendar "{name}" already exists', hint="update it instead")


def update_calendar(
    name: str,
    description: str | None,
    definition: Mapping[str, Any] | None,
    *,
    version: int | None,
    actor: str | None,
) -> Plan[None]:
    """Update a calendar; None leaves a field unchanged."""
    yield from find_calendar(name)
    yield from expect_version("calendar", name, version)
    yield from act_as(actor)
    document = None if definition is None else json.dumps(definition)
    params = {"name": name, "description": description, "definition": document}
    yield Execute("calendars/update", params)


def delete_calendar(name: str, *, version: int | None, actor: str | None) -> Plan[None]:
    stored = yield from find_calendar(name)
    yield from expect_version("calendar", name, version)
    if stored.schedules:
        raise WrongState(
            f'calendar "{name}" is used by {plural(stored.schedules, "schedule")}',
            hint="change or remove the calendar of those schedules first",
        )
    yield from act_as(actor)
    yield Execute("calendars/delete", {"name": name})


def list_templates(name: str | None = None) -> Plan[list[TemplateInfo]]:
    return read_all("templates/list", {"name": name}, TemplateInfo)


def page_templates(*, cursor: Sequence[Any] | None, limit: int) -> Plan[Page[TemplateInfo]]:
    params = {"name": None}
    return read_page(
        "templates/list", params, TemplateInfo, order="name", cursor=cursor, limit=limit
    )


def find_template(name: str) -> Plan[TemplateInfo]:
    found = yield from list_templates(name)
    if not found:
        known = yield from list_templates()
        names = [template.name for template in known]
        hint = nearest(name, names, f"choose from {', '.join(names[:20]) or 'none: set one first'}")
        raise TemplateNotFound(f'no template is named "{name}"', hint=hint)
    return found[0]


def set_template(
    name: str, cron: str, description: str, *, version: int | None, actor: str | None
) -> Plan[None]:
    if version is not None:
        yield from find_template(name)
        yield from expect_version("template", name, version)
    yield from act_as(actor)
    yield Execute("templates/set", {"name": name, "cron": cron, "description": description})


def remove_template(name: str, *, version: int | None, actor: str | None) -> Plan[None]:
    yield from find_template(name)
    yield from expect_version("template", name, version)
    yield from act_as(actor)
    yield Execute("templates/remove", {"name": name})
