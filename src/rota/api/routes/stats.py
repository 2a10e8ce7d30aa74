"""How the system stands, and what it did."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.stats import StatsView
from rota.api.schemas.values import Instant
from rota.api.state import AtDesk

routes = router("stats")


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
    return await desk.stats.get(job=job, queue=queue, since=since, until=until, step=step_seconds)
