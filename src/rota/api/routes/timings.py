"""Timings that are not saved: a preview, and the load of the coming days."""

from __future__ import annotations

import asyncio
from typing import Any

from rota.api.operations import add_route, query_of, shaped, summary_of
from rota.api.routing import router
from rota.api.schemas.load import LoadView
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedules import PreviewRequest
from rota.api.schemas.views import list_of, view_of
from rota.api.state import RequestScope, Scoped
from rota.model.fields import arguments_of
from rota.operations.reading import plan_behind
from rota.operations.schedules.reads import ScheduleReads
from rota.timing.preview import PreviewRow

routes = router("timings")


@routes.post(
    "/timings/preview",
    operation_id="preview_timing",
    response_model=list_of(view_of(PreviewRow)),
    responses=problems(404, *WITH_BODY),
)
async def preview_timing(scope: Scoped, body: PreviewRequest) -> Any:
    """Preview the run times of a timing that is not saved. Changes nothing."""
    return await scope.schedules.preview(**body.model_dump(exclude_unset=True))


async def _simulate(scope: RequestScope, **given: Any) -> Any:
    # In a thread: many schedules take seconds, which would block other requests.
    return await asyncio.to_thread(scope.schedules.sync.simulate, **given)


_PLAN = plan_behind(ScheduleReads.simulate)
shaped(_simulate, "simulate", summary_of(_PLAN), [query_of(one) for one in arguments_of(_PLAN)])
add_route(routes, "/simulation", _simulate, LoadView, {})
