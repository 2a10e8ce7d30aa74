"""How the system stands, what it did, and all of that at a glance."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import TypeAdapter

from rota.api.routing import router
from rota.api.schemas.overview import OverviewView
from rota.api.schemas.problem import problems
from rota.api.schemas.stats import StatsView
from rota.api.schemas.values import Instant
from rota.api.state import AtDesk
from rota.model.stats import Stats

routes = router("stats")
_CODEC = TypeAdapter(Stats)


@routes.get("/stats", response_model=StatsView, operation_id="get_stats", responses=problems(404))
async def get_stats(
    desk: AtDesk,
    job: Annotated[str | None, Query(max_length=200, description="Of this job.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="Of this queue.")] = None,
    since: Annotated[
        Instant | None, Query(description="From this time on; an hour ago by default.")
    ] = None,
    until: Annotated[Instant | None, Query(description="Before this time; now by default.")] = None,
    step_seconds: Annotated[
        int | None,
        Query(ge=60, le=34_560_000, description="Length of the steps, in whole minutes."),
    ] = None,
) -> Any:
    """Runs by state and queue, the age of the oldest queued one, and rates, failures and durations
    in all, by job and by step. Open runs are as counted last, every few seconds; what was done
    comes from roll-ups."""
    found = await desk.stats.get(job=job, queue=queue, since=since, until=until, step=step_seconds)
    # A day by the minute is 20,000 values: written at once, and not taken apart and checked first.
    return Response(_CODEC.dump_json(found), media_type="application/json")


@routes.get("/overview", response_model=OverviewView, operation_id="get_overview")
async def get_overview(
    desk: AtDesk,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Of what runs, fails and comes, so many.")
    ] = 50,
    failing_seconds: Annotated[
        float, Query(ge=1, le=604_800, description="How far back failures count.")
    ] = 300,
) -> Any:
    """Everything at a glance: queues with their rates, the longest line first; workers; what has
    run longest, what fails lately and why, what is due next. Cheap enough to be asked for every
    second."""
    return await desk.overview.get(limit=limit, failing_seconds=failing_seconds)
