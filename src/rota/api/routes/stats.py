"""Statistics, trends, the overview, what needs attention, and the doctor's report."""

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
from rota.api.state import Scoped
from rota.model.stats import Stats
from rota.model.trend import Trend

routes = router("stats")
_CODEC = TypeAdapter(Stats)
_TREND_CODEC = TypeAdapter(Trend)
_SPANS = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}


@routes.get("/stats", response_model=StatsView, operation_id="get_stats", responses=problems(404))
async def get_stats(
    scope: Scoped,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="Filter by queue.")] = None,
    since: Annotated[
        Instant | None, Query(description="Start of the period. Default: one hour ago.")
    ] = None,
    until: Annotated[Instant | None, Query(description="End of the period. Default: now.")] = None,
    step_seconds: Annotated[
        int | None,
        Query(ge=60, le=34_560_000, description="Interval length in seconds, a multiple of 60."),
    ] = None,
) -> Any:
    """Runs by state and queue, the age of the oldest queued run, and throughput, failures and
    durations in total, by job and by interval. Unfinished runs are counted every few seconds;
    activity comes from roll-ups.
    """
    found = await scope.stats.get(job=job, queue=queue, since=since, until=until, step=step_seconds)
    # A day by the minute is 20,000 values: serialize them directly, without validation.
    return Response(_CODEC.dump_json(found), media_type="application/json")


@routes.get(
    "/stats/trend", response_model=TrendView, operation_id="get_trend", responses=problems(404)
)
async def get_trend(
    scope: Scoped,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="Filter by queue.")] = None,
    span: Annotated[
        Literal["1h", "6h", "24h", "7d"], Query(description="How far back. Default: one hour.")
    ] = "1h",
) -> Any:
    """The data of the dashboard's charts, by interval, compared with the same time the day before:
    finished attempts, durations, pick-up latency and backlog.
    """
    hours = timedelta(hours=_SPANS[span])
    found = await scope.stats.trend(job=job, queue=queue, span=hours)
    return Response(_TREND_CODEC.dump_json(found), media_type="application/json")


@routes.get("/overview", response_model=OverviewView, operation_id="get_overview")
async def get_overview(
    scope: Scoped,
    limit: Annotated[
        int,
        Query(
            ge=1, le=1000, description="Maximum number of running, failing and upcoming items each."
        ),
    ] = 50,
    failing_seconds: Annotated[
        float, Query(ge=1, le=604_800, description="Period over which failures are counted.")
    ] = 300,
) -> Any:
    """Overview: queues with their throughput, largest backlog first; workers; the longest-running
    attempts, recent failures and their causes, and what is due next. Cheap enough to poll every
    second.
    """
    return await scope.overview.get(limit=limit, failing_seconds=failing_seconds)


@routes.get("/attention", response_model=AttentionView, operation_id="get_attention")
async def get_attention(
    scope: Scoped,
    limit: Annotated[
        int, Query(ge=1, le=100, description="Maximum number of items of each kind.")
    ] = 5,
) -> Any:
    """List what needs attention, most severe first: jobs that fail more than usual, runs that no
    worker takes, workers in trouble, paused queues and tenants, stalled schedules, runs that
    take too long. Each with since when, the reason, and the command to run.
    """
    return await scope.attention.get(limit=limit)


@routes.get("/doctor", response_model=ReportView, operation_id="get_doctor")
async def get_doctor(scope: Scoped) -> Any:
    """Check the installation: server, schema, workers, scheduler ticks, maintenance, old
    transactions, dead rows, partitions, connections. Each with a verdict, its impact, and what
    to do.
    """
    return await scope.doctor.get()
