"""How the system stands, what it did, and all of that at a glance."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import TypeAdapter

from rota.api.routing import router
from rota.api.schemas.attention import AttentionView
from rota.api.schemas.doctor import ReportView
from rota.api.schemas.overview import OverviewView
from rota.api.schemas.problem import problems
from rota.api.schemas.stats import StatsView
from rota.api.schemas.trend import TrendView
from rota.api.schemas.values import Instant
from rota.api.state import AtDesk
from rota.model.stats import Stats
from rota.model.trend import Trend

routes = router("stats")
_CODEC = TypeAdapter(Stats)
_TREND_CODEC = TypeAdapter(Trend)
_SPANS = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}


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


@routes.get(
    "/stats/trend", response_model=TrendView, operation_id="get_trend", responses=problems(404)
)
async def get_trend(
    desk: AtDesk,
    job: Annotated[str | None, Query(max_length=200, description="Of this job.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="Of this queue.")] = None,
    span: Annotated[
        Literal["1h", "6h", "24h", "7d"], Query(description="How far back; an hour by default.")
    ] = "1h",
) -> Any:
    """What the charts of the dashboard draw, in steps, beside the same time of the day before:
    attempts that ended, how long they took, how long claims had waited, and what waited."""
    hours = timedelta(hours=_SPANS[span])
    found = await desk.stats.trend(job=job, queue=queue, span=hours)
    return Response(_TREND_CODEC.dump_json(found), media_type="application/json")


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


@routes.get("/attention", response_model=AttentionView, operation_id="get_attention")
async def get_attention(
    desk: AtDesk,
    limit: Annotated[int, Query(ge=1, le=100, description="Of each kind at most so many.")] = 5,
) -> Any:
    """What needs somebody, the worst first: jobs that fail more than usual, work that no worker
    takes, workers in trouble, paused queues and tenants, schedules that stand still, runs that take
    too long. Each with since when, the reason, and what to type."""
    return await desk.attention.get(limit=limit)


@routes.get("/doctor", response_model=ReportView, operation_id="get_doctor")
async def get_doctor(desk: AtDesk) -> Any:
    """How the installation stands: server, schema, workers, ticks, upkeep, old transactions, dead
    rows, partitions, connections. Each with a verdict, what it costs, and what to do."""
    return await desk.doctor.get()
