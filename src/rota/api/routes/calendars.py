"""Calendars, which schedules follow, and templates of timings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import fleet as schemas
from rota.api.schemas import schedules
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedule_bodies import NewTemplate
from rota.api.schemas.values import Cursor, Limit, Why, read_cursor
from rota.api.state import RequestScope, Scoped
from rota.model.list_filters import CalendarOrder

routes = router("calendars")
CalendarName = Annotated[str, Path(min_length=1, max_length=100, description="Calendar name.")]
TemplateName = Annotated[str, Path(min_length=1, max_length=200, description="Template name.")]


@routes.get("/calendars", response_model=schemas.CalendarPage, operation_id="list_calendars")
async def list_calendars(
    scope: Scoped,
    order: Annotated[
        CalendarOrder, Query(description="Sort order: by name, or most recently changed first.")
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List calendars and how many schedules use each, sorted by name or by `order`."""
    kind = f"calendars {order}"
    place = read_cursor(kind, cursor, float, str)
    return page_of(kind, await scope.calendars.page(order=order, cursor=place, limit=limit))


@routes.post(
    "/calendars",
    response_model=schemas.CalendarView,
    status_code=201,
    operation_id="create_calendar",
    responses=problems(409, *WITH_BODY) | tagged(201),
)
async def create_calendar(scope: Scoped, body: schemas.NewCalendar, response: Response) -> Any:
    """Create a calendar."""
    await scope.calendars.create(body.name, body.definition, body.description, reason=body.reason)
    return await _one(scope, body.name, response)


@routes.get(
    "/calendars/{name}",
    response_model=schemas.CalendarView,
    operation_id="get_calendar",
    responses=problems(404) | tagged(),
)
async def get_calendar(scope: Scoped, name: CalendarName, response: Response) -> Any:
    """Get one calendar."""
    return await _one(scope, name, response)


@routes.patch(
    "/calendars/{name}",
    response_model=schemas.CalendarView,
    operation_id="update_calendar",
    responses=problems(404, 412, *WITH_BODY) | tagged(),
)
async def update_calendar(
    scope: Scoped,
    name: CalendarName,
    body: schemas.CalendarChanges,
    response: Response,
    version: Version,
) -> Any:
    """Update a calendar for every schedule that uses it, from the next tick on."""
    await scope.calendars.update(
        name, body.definition, body.description, version=version, reason=body.reason
    )
    return await _one(scope, name, response)


@routes.delete(
    "/calendars/{name}",
    response_model=schemas.Removed,
    operation_id="delete_calendar",
    responses=problems(404, 409, 412),
)
async def delete_calendar(
    scope: Scoped, name: CalendarName, version: Version, reason: Why = None
) -> Any:
    """Delete a calendar that no schedule uses."""
    await scope.calendars.delete(name, version=version, reason=reason)
    return {"name": name}


@routes.get(
    "/schedule-templates",
    response_model=schedules.TemplatePage,
    operation_id="list_schedule_templates",
)
async def list_templates(scope: Scoped, limit: Limit = 50, cursor: Cursor = None) -> Any:
    """List timing templates by name."""
    place = read_cursor("templates", cursor, float, str)
    return page_of("templates", await scope.schedules.templates_page(cursor=place, limit=limit))


@routes.get(
    "/schedule-templates/{name}",
    response_model=schedules.TemplateView,
    operation_id="get_schedule_template",
    responses=problems(404) | tagged(),
)
async def get_template(scope: Scoped, name: TemplateName, response: Response) -> Any:
    """Get one timing template."""
    return await _template(scope, name, response)


@routes.put(
    "/schedule-templates/{name}",
    response_model=schedules.TemplateView,
    operation_id="put_schedule_template",
    responses=problems(404, 412, *WITH_BODY) | tagged(),
)
async def put_template(
    scope: Scoped, name: TemplateName, body: NewTemplate, response: Response, version: Version
) -> Any:
    """Create a timing template, or change the cron expression of an existing one."""
    await scope.schedules.add_template(
        name, body.cron, body.description, version=version, reason=body.reason
    )
    return await _template(scope, name, response)


@routes.delete(
    "/schedule-templates/{name}",
    response_model=schemas.Removed,
    operation_id="delete_schedule_template",
    responses=problems(404, 412),
)
async def delete_template(
    scope: Scoped, name: TemplateName, version: Version, reason: Why = None
) -> Any:
    """Delete a timing template. Schedules created from it are kept."""
    await scope.schedules.remove_template(name, version=version, reason=reason)
    return {"name": name}


async def _template(scope: RequestScope, name: str, response: Response) -> Any:
    found = await scope.schedules.template(name)
    set_etag(response, found.version)
    return found


async def _one(scope: RequestScope, name: str, response: Response) -> Any:
    found = await scope.calendars.get(name)
    set_etag(response, found.version)
    return found
