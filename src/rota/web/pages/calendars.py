"""Calendars: create, edit and delete them, with the schedules that follow each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import TimingError, VersionConflict, WrongState
from rota.model.calendar import CalendarInfo
from rota.timing.windows import WEEKDAYS
from rota.web.calendar_form import CalendarDraft, definition_of, draft_of, read_calendar
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope
from rota.web.pages.schedules import path_of as schedule_path
from rota.web.words import refusal
from rota.web.zones import NAMES

_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Use:
    """A schedule that follows the calendar."""

    name: str
    path: str
    on_closed: str


@dataclass(frozen=True, slots=True)
class CalendarEditor(Page):
    """`calendar` is the stored calendar, None for a new one. If another user has changed it
    meanwhile, `other` is the stored version and `changed_by` that user."""

    template: ClassVar[str] = "calendar/edit.html"
    section: ClassVar[str] = "calendar"

    calendar: CalendarInfo | None
    name: str
    path: str
    draft: CalendarDraft
    version: int
    uses: list[Use]
    error: str | None
    other: CalendarDraft | None
    changed_by: str
    weekdays: tuple[str, ...]
    zones: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"Calendar {self.calendar.name}" if self.calendar else "New calendar"


def path_of(name: str) -> str:
    return f"/calendars/{quote(name, safe='')}"


async def new(request: Request) -> Response:
    return await _show(PageScope(request), None, "", CalendarDraft())


async def edit(request: Request) -> Response:
    scope = PageScope(request)
    found = await scope.calendars.get(scope.name())
    return await _show(scope, found, found.name, draft_of(found.description, found.definition))


async def create(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("calendars.create")
    form = await read_form(request)
    draft, name = read_calendar(form), form.get("name", "").strip()
    try:
        await scope.calendars.create(
            name, definition_of(draft), draft.description, reason=form.text("reason")
        )
    except (TimingError, WrongState) as error:
        return await _show(scope, None, name, draft, error=refusal(error), status=422)
    return scope.go(path_of(name), f"Calendar {name} created")


async def save(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("calendars.update")
    form = await read_form(request)
    found = await scope.calendars.get(scope.name())
    draft, version = read_calendar(form), form.get("version", "")
    try:
        await scope.calendars.update(
            found.name,
            definition=definition_of(draft),
            description=draft.description,
            version=int(version) if version.isdecimal() else None,
            reason=form.text("reason"),
        )
    except VersionConflict:
        return await _show(scope, found, found.name, draft, is_conflict=True, status=409)
    except TimingError as error:
        return await _show(scope, found, found.name, draft, error=refusal(error), status=422)
    return scope.go(path_of(found.name), f"Calendar {found.name} is saved")


async def _show(
    scope: PageScope,
    found: CalendarInfo | None,
    name: str,
    draft: CalendarDraft,
    *,
    error: str | None = None,
    is_conflict: bool = False,
    status: int = 200,
) -> Response:
    page = CalendarEditor(
        calendar=found,
        name=name,
        path="/calendars/new" if found is None else path_of(found.name),
        draft=draft,
        version=found.version if found else 0,
        uses=await _uses(scope, found),
        error=error,
        other=draft_of(found.description, found.definition) if found and is_conflict else None,
        changed_by=await _changed_by(scope, found) if is_conflict else "",
        weekdays=WEEKDAYS,
        zones=NAMES,
    )
    return await scope.show(page, status=status)


async def _uses(scope: PageScope, found: CalendarInfo | None) -> list[Use]:
    if found is None or not found.schedules:
        return []
    page = await scope.schedules.page(calendar=found.name, system=True, limit=_SHOWN)
    return [Use(one.name, schedule_path(one.name, one.tenant), one.on_closed) for one in page.items]


async def _changed_by(scope: PageScope, found: CalendarInfo | None) -> str:
    if found is None:
        return ""
    entries = await scope.audit.list(object_type="calendar", object_id=found.name, limit=1)
    return entries[0].actor if entries else "somebody"


routes = [
    Route("/calendars/new", new),
    Route("/calendars/new", create, methods=["POST"]),
    Route("/calendars/{name}", edit),
    Route("/calendars/{name}", save, methods=["POST"]),
    *routes_of("calendars"),
]
