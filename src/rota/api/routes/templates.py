"""Templates of timings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response

from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import fleet as schemas
from rota.api.schemas import schedules
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedule_bodies import NewTemplate
from rota.api.schemas.values import Cursor, Limit, Why, read_cursor
from rota.api.state import RequestScope, Scoped

routes = router("calendars")
TemplateName = Annotated[str, Path(min_length=1, max_length=200, description="Template name.")]


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
