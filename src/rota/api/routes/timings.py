"""Timings that are not saved: a preview, and the load of the coming days."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Query

from rota.api.routing import router
from rota.api.schemas import schedule_bodies as bodies
from rota.api.schemas.load import LoadView
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedules import ComingView
from rota.api.schemas.views import list_of
from rota.api.state import Scoped

routes = router("timings")


@routes.post(
    "/timings/preview",
    operation_id="preview_timing",
    response_model=list_of(ComingView),
    responses=problems(404, *WITH_BODY),
)
async def preview_timing(scope: Scoped, body: bodies.PreviewRequest) -> Any:
    """Preview the run times of a timing that is not saved. Changes nothing."""
    given = bodies.arguments(body)
    if given.get("until") is not None:
        given["count"] = given.get("count") or 1000
    return await scope.schedules.preview(**given)


@routes.get("/simulation", operation_id="simulate", response_model=LoadView)
async def simulate(
    scope: Scoped,
    days: Annotated[int, Query(ge=1, le=31, description="Number of days from now.")] = 7,
    timezone: Annotated[
        str, Query(min_length=1, max_length=100, description="Time zone of the days and times.")
    ] = "UTC",
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    queue: Annotated[
        str | None, Query(max_length=100, description="Only schedules whose runs go to this queue.")
    ] = None,
    tag: Annotated[str | None, Query(max_length=100, description="Filter by tag.")] = None,
    system: Annotated[bool, Query(description="Include Rota's own schedules.")] = False,
    least: Annotated[
        int, Query(ge=2, le=10_000, description="Starts per minute that count as a pile-up.")
    ] = 5,
) -> Any:
    """Forecast the load of the coming days: runs, pile-ups and likely overlaps."""
    # In a thread: many schedules take seconds, which would block other requests.
    return await asyncio.to_thread(
        scope.schedules.sync.simulate,
        days, timezone=timezone, tenant=tenant, job=job, queue=queue, tag=tag, system=system,
        least=least,
    )  # fmt: skip
