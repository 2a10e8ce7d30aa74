"""Business events, which start jobs. Rota's own events are those of the stream."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas.events import (
    BindingView,
    Emitted,
    EventPage,
    EventView,
    NewEvent,
    RefusalPage,
    ReplayedView,
    ReplayRequest,
)
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Instant, Limit, read_cursor
from rota.api.schemas.views import list_of
from rota.api.state import Scoped
from rota.model.event import Outcome
from rota.model.list_filters import TimeOrder

routes = router("events")


@routes.get("/events", response_model=EventPage, operation_id="list_events")
async def list_events(
    scope: Scoped,
    name: Annotated[
        str | None, Query(max_length=200, description="Event name or pattern, e.g. order.*")
    ] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    job: Annotated[
        str | None, Query(max_length=200, description="Only events that concerned this job.")
    ] = None,
    key: Annotated[str | None, Query(max_length=400, description="Filter by key.")] = None,
    outcome: Annotated[Outcome | None, Query(description="Filter by outcome.")] = None,
    text: Annotated[str | None, Query(max_length=200, description="Text in the payload.")] = None,
    since: Annotated[Instant | None, Query(description="Start of the period, inclusive.")] = None,
    until: Annotated[Instant | None, Query(description="End of the period, exclusive.")] = None,
    order: Annotated[TimeOrder, Query(description="Sort order.")] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List received events and what each started; if nothing, why."""
    kind = f"events {order}"
    found = await scope.events.page(
        name=name, tenant=tenant, job=job, key=key, outcome=outcome, text=text, since=since,
        until=until, order=order, cursor=read_cursor(kind, cursor, int), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.get(
    "/events/bindings",
    response_model=list_of(BindingView),
    operation_id="list_event_bindings",
)
async def list_event_bindings(
    scope: Scoped,
    event: Annotated[
        str | None,
        Query(max_length=200, description="Only bindings that an event of this name matches."),
    ] = None,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
) -> Any:
    """List event bindings: jobs, event names or patterns, and filters."""
    return await scope.events.bindings(event, job)


@routes.get(
    "/events/{event_id:int}",
    response_model=EventView,
    operation_id="get_event",
    responses=problems(404),
)
async def get_event(
    scope: Scoped,
    event_id: Annotated[int, Path(ge=1, le=BIGGEST_ID, description="Event ID.")],
) -> Any:
    """Get one event and what it started."""
    return await scope.events.get(event_id)


@routes.post(
    "/events",
    response_model=Emitted,
    status_code=201,
    operation_id="emit_event",
    responses=problems(*WITH_BODY),
)
async def emit_event(scope: Scoped, body: NewEvent) -> Any:
    """Emit an event, starting every job bound to it. Runs of disabled jobs wait."""
    runs = await scope.events.emit(
        body.event, body.payload, tenant=body.tenant, key=body.key, key_keep=body.key_seconds,
        key_period=body.period_seconds, metadata=body.metadata, hook=body.hook,
    )  # fmt: skip
    return {
        "event_id": runs.event_id,
        "runs": [
            {"run_id": run.id, "job": run.job, "is_duplicate": run.is_duplicate} for run in runs
        ],
    }


@routes.post(
    "/events/replay",
    response_model=ReplayedView,
    operation_id="replay_events",
    responses=problems(404, *WITH_BODY),
)
async def replay_events(scope: Scoped, body: ReplayRequest) -> Any:
    """Deliver stored events to a job, or count how many that would be."""
    return await scope.events.replay(
        body.job, event=body.event, ids=body.ids, since=body.since, until=body.until,
        tenant=body.tenant, again=body.again, dry_run=body.dry_run, reason=body.reason,
    )  # fmt: skip


@routes.get(
    "/events/refusals",
    response_model=RefusalPage,
    operation_id="list_refusals",
)
async def list_refusals(
    scope: Scoped,
    hook: Annotated[str | None, Query(max_length=200, description="Filter by webhook.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List requests that webhooks refused, by minute, latest first."""
    at = read_cursor("refusals", cursor, datetime, str, str, str, str)
    return page_of("refusals", await scope.events.refusals(hook, cursor=at, limit=limit))
