"""Live changes as server-sent events."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from pydantic import TypeAdapter

from rota.api.errors import ProblemError
from rota.api.operations import query_of, shaped
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.slots import EventStream
from rota.api.state import ApiState, RequestScope
from rota.api.stream import Hub, events_of, until_stopped
from rota.model.fields import arguments_of
from rota.model.log import LogLine
from rota.operations.logs.logs import Logs
from rota.telemetry.events import TOPICS

routes = router("stream")
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
        Query(max_length=200, description=f"Topics, comma-separated: {', '.join(TOPICS)}."),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=100, description="Continue after this event.")
    ] = None,
) -> Any:
    """Stream summaries of changes since the previous poll, about twice a second, and operator
    actions. After `resync`, something was missed: reload what you display.
    """
    state: ApiState = request.app.state.rota
    wanted = _read_topics(topics)
    return EventStream(_listen(state.hub, wanted, last_event_id), state.listeners)


async def _listen(hub: Hub, topics: frozenset[str], last_id: str | None) -> AsyncGenerator[bytes]:
    """Start listening with the first step, so that an unused generator leaves no listener
    behind."""
    async with aclosing(events_of(hub, hub.listen(topics, last_id))) as parts:
        async for part in parts:
            yield part


async def _tail(scope: RequestScope, request: Request, lines: int, **given: Any) -> Any:
    state: ApiState = request.app.state.rota
    found = scope.ask(scope.app.logs)
    # Refuse an invalid search before the stream begins.
    await found.recent(**given, seconds=0, limit=1)
    source = found.tail(lines=lines, **given)
    return EventStream(until_stopped(source, state.stopping, _show), state.tails)


def _show(line: LogLine) -> bytes:
    return format_sse_event(event="line", data_str=_line.dump_json(line).decode())


def _read_topics(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset(TOPICS)
    wanted = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = sorted(wanted - set(TOPICS))
    if unknown or not wanted:
        what = f"unknown topic {unknown[0]!r}" if unknown else "no topic given"
        raise ProblemError(
            422, "invalid", f"{what}; choose from {', '.join(TOPICS)}", field="topics"
        )
    return wanted


_REQUEST = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
_ABOUT = (
    "Stream the most recent log lines, then each new one as it is stored, as events named `line`."
)
routes.add_api_route(
    "/logs/tail",
    shaped(_tail, "tail_logs", _ABOUT, [_REQUEST, *map(query_of, arguments_of(Logs.tail))]),
    operation_id="tail_logs",
    response_class=StreamingResponse,
    responses=_streaming('event: line\ndata: {"run_id":42,"level":"info","message":"sending"}\n\n'),
)
