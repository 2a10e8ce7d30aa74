"""Events of the business: facts that start jobs. The system's own are the stream's."""

from __future__ import annotations

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
    NewWatch,
    RefusalView,
    ReplayedView,
    ReplayRequest,
    Unwatched,
    WatchView,
)
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Instant, Limit, Why, read_cursor
from rota.api.state import AtDesk
from rota.model.event import Outcome
from rota.model.list_filters import TimeOrder

routes = router("events")


@routes.get("/events", response_model=EventPage, operation_id="list_events")
async def list_events(
    desk: AtDesk,
    name: Annotated[
        str | None, Query(max_length=200, description="A name, or a pattern: order.*")
    ] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Of this tenant.")] = None,
    job: Annotated[str | None, Query(max_length=200, description="That concerned it.")] = None,
    key: Annotated[str | None, Query(max_length=400, description="With this key.")] = None,
    outcome: Annotated[Outcome | None, Query(description="What they came to.")] = None,
    text: Annotated[str | None, Query(max_length=200, description="Part of the payload.")] = None,
    since: Annotated[Instant | None, Query(description="At this time or later.")] = None,
    until: Annotated[Instant | None, Query(description="Before this time.")] = None,
    order: Annotated[TimeOrder, Query(description="Which come first.")] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Events that came, with what each started, also nothing and why."""
    kind = f"events {order}"
    found = await desk.events.page(
        name=name, tenant=tenant, job=job, key=key, outcome=outcome, text=text, since=since,
        until=until, order=order, cursor=read_cursor(kind, cursor, int), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.get(
    "/events/bindings",
    response_model=list[BindingView],  # type: ignore[valid-type]
    operation_id="list_event_bindings",
)
async def list_event_bindings(
    desk: AtDesk,
    event: Annotated[
        str | None, Query(max_length=200, description="What an event of this name reaches.")
    ] = None,
    job: Annotated[str | None, Query(max_length=200, description="Of this job.")] = None,
) -> Any:
    """Which jobs are bound to which names and patterns, with their filters."""
    return await desk.events.bindings(event, job)


@routes.get(
    "/events/{event_id:int}",
    response_model=EventView,
    operation_id="get_event",
    responses=problems(404),
)
async def get_event(
    desk: AtDesk,
    event_id: Annotated[int, Path(ge=1, le=BIGGEST_ID, description="The number of an event.")],
) -> Any:
    """One event, with what it started."""
    return await desk.events.get(event_id)


@routes.post(
    "/events",
    response_model=Emitted,
    status_code=201,
    operation_id="emit_event",
    responses=problems(*WITH_BODY),
)
async def emit_event(desk: AtDesk, body: NewEvent) -> Any:
    """Start every job that is bound to the event. A run of a disabled job waits."""
    runs = await desk.events.emit(
        body.event, body.payload, tenant=body.tenant, key=body.key, key_keep=body.key_seconds,
        key_period=body.period_seconds, hook=body.hook,
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
async def replay_events(desk: AtDesk, body: ReplayRequest) -> Any:
    """Deliver events that are kept to a job, or count how many that would be."""
    return await desk.events.replay(
        body.job, event=body.event, ids=body.ids, since=body.since, until=body.until,
        tenant=body.tenant, again=body.again, dry_run=body.dry_run, reason=body.reason,
    )  # fmt: skip


@routes.get(
    "/events/refusals",
    response_model=list[RefusalView],  # type: ignore[valid-type]
    operation_id="list_refusals",
)
async def list_refusals(
    desk: AtDesk,
    hook: Annotated[str | None, Query(max_length=200, description="Of this webhook.")] = None,
    limit: Limit = 50,
) -> Any:
    """What came to webhooks and was refused, by minute, the latest first."""
    return await desk.events.refusals(hook, limit=limit)


WatchId = Annotated[int, Path(ge=1, le=BIGGEST_ID, description="The number of a watch.")]


@routes.get(
    "/watches",
    response_model=list[WatchView],  # type: ignore[valid-type]
    operation_id="list_watches",
)
async def list_watches(desk: AtDesk) -> Any:
    """Tables that are watched, with where the database differs from what was installed."""
    return await desk.events.watches()


@routes.get(
    "/watches/{watch:int}",
    response_model=WatchView,
    operation_id="get_watch",
    responses=problems(404),
)
async def get_watch(desk: AtDesk, watch: WatchId) -> Any:
    """One watch of a table."""
    return await desk.events.find_watch(watch)


@routes.post(
    "/watches",
    response_model=WatchView,
    status_code=201,
    operation_id="watch_table",
    responses=problems(409, *WITH_BODY),
)
async def watch_table(desk: AtDesk, body: NewWatch) -> Any:
    """Have a table emit an event for each row that is written, in the writer's transaction."""
    return await desk.events.watch(
        body.table, on=body.on, when=body.when, columns=body.columns, event=body.event,
        tenant=body.tenant, tenant_column=body.tenant_column,
    )  # fmt: skip


@routes.delete(
    "/watches/{watch:int}",
    response_model=Unwatched,
    operation_id="unwatch_table",
    responses=problems(404, 409),
)
async def unwatch_table(desk: AtDesk, watch: WatchId, reason: Why = None) -> Any:
    """Take a watch and its triggers away."""
    return {"ids": await desk.events.unwatch(watch=watch, reason=reason)}
