"""What happens, as it happens: server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from pydantic import TypeAdapter

from rota.api.errors import ProblemError
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.values import BIGGEST_ID
from rota.api.state import ApiState, AtDesk
from rota.api.stream import events_of, until_stopped
from rota.model.log import LogLine
from rota.telemetry.events import TOPICS

routes = router("stream")
MOST_TAILS = 20
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_line = TypeAdapter(LogLine)


def _streaming(example: str) -> dict[int | str, dict[str, Any]]:
    content = {"text/event-stream": {"schema": {"type": "string"}, "example": example}}
    return {
        200: {"description": "Events, until one side closes.", "content": content},
        **problems(503),
    }


@routes.get(
    "/stream",
    operation_id="stream",
    response_class=StreamingResponse,
    responses=_streaming(
        'event: run.succeeded\ndata: {"job":"send","queue":"mail","count":12}\nid: 9f2c01ab-7\n\n'
    ),
)
async def stream(
    request: Request,
    topics: Annotated[
        str | None,
        Query(max_length=200, description=f"Of these, by commas: {', '.join(TOPICS)}."),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=100, description="Go on after this event.")
    ] = None,
) -> Any:
    """Summaries of what has happened since the poll before, about twice a second, and what
    operators did. After `resync` something was missed: look again at what you show."""
    hub = request.app.state.rota.hub
    wanted = _read_topics(topics)
    if hub.is_full:
        raise ProblemError(503, "too_many_streams", "too many are listening already")
    listener = hub.listen(wanted, last_event_id)
    return StreamingResponse(
        events_of(hub, listener), media_type="text/event-stream", headers=_HEADERS
    )


@routes.get(
    "/logs/tail",
    operation_id="tail_logs",
    response_class=StreamingResponse,
    responses=_streaming('event: line\ndata: {"run_id":42,"level":"info","message":"sending"}\n\n'),
)
async def tail_logs(
    desk: AtDesk,
    request: Request,
    text: Annotated[str, Query(max_length=1000, description="Words that lines must hold.")] = "",
    job: Annotated[str | None, Query(max_length=200, description="Of this job.")] = None,
    run_id: Annotated[int | None, Query(ge=1, le=BIGGEST_ID, description="Of this run.")] = None,
    level: Annotated[
        str | None, Query(max_length=20, description="Of this level and above.")
    ] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Of this tenant.")] = None,
    lines: Annotated[int, Query(ge=0, le=1000, description="First so many of the last.")] = 10,
) -> Any:
    """The last lines of the log, then each new one as it is stored: events named `line`."""
    state: ApiState = request.app.state.rota
    if state.tails >= MOST_TAILS:
        raise ProblemError(503, "too_many_streams", f"{MOST_TAILS} tails are open already")
    found = desk.ask(desk.app.logs)
    filters: Any = {"job": job, "run_id": run_id, "level": level, "tenant": tenant}
    # A question that makes no sense is refused before the stream begins.
    await found.recent(text, seconds=0, limit=1, **filters)
    source = found.tail(text, lines=lines, **filters)
    return StreamingResponse(
        _counted(state, until_stopped(source, state.stopping, _show)),
        media_type="text/event-stream",
        headers=_HEADERS,
    )


async def _counted(state: ApiState, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    state.tails += 1
    try:
        async with aclosing(source) as parts:  # type: ignore[type-var]
            async for part in parts:
                yield part
    finally:
        state.tails -= 1


def _show(line: LogLine) -> bytes:
    return format_sse_event(event="line", data_str=_line.dump_json(line).decode())


def _read_topics(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset(TOPICS)
    wanted = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(wanted - set(TOPICS))
    if unknown or not wanted:
        what = f"no topic {unknown[0]!r}" if unknown else "no topic"
        raise ProblemError(422, "invalid", f"{what}; there is {', '.join(TOPICS)}", field="topics")
    return wanted
