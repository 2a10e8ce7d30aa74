"""What happens, for pages that are open: a script renews the parts that it touches."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from rota.api.stream import HEARTBEAT_SECONDS, RETRY_MS, Hub, Listener
from rota.telemetry.events import TOPICS
from rota.web.desk import WebState

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def live(request: Request) -> Response:
    """One stream a browser, whatever its pages show: they take what concerns them."""
    state: WebState = request.app.state.web
    hub = state.api.hub
    if hub.is_full:
        return Response("too many are listening already\n", 503, media_type="text/plain")
    listener = hub.listen(frozenset(TOPICS), request.headers.get("last-event-id"))
    return StreamingResponse(
        topics_of(hub, listener), media_type="text/event-stream", headers=_HEADERS
    )


async def topics_of(
    hub: Hub, listener: Listener, *, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[str]:
    """The topics of what has happened, once for each poll: a page looks again, it is not told."""
    try:
        yield f"retry: {RETRY_MS}\n\n"
        while not listener.is_closed:
            taken = await listener.take(heartbeat)
            if not taken:
                yield ": still here\n\n"
                continue
            is_lost = any(sent.event is None for sent in taken)
            topics = {sent.event.topic for sent in taken if sent.event is not None}
            data = "resync" if is_lost else ",".join(sorted(topics))
            yield f"id: {hub.id_of(taken[-1])}\ndata: {data}\n\n"
    finally:
        hub.leave(listener)


routes = [Route("/live", live)]
