"""What happens, for pages that are open: a script renews the parts that it touches."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.slots import EventStream
from rota.api.stream import HEARTBEAT_SECONDS, RETRY_MS, Hub
from rota.telemetry.events import TOPICS
from rota.web.desk import WebState


async def live(request: Request) -> Response:
    """One stream a browser, whatever its pages show: they take what concerns them."""
    state: WebState = request.app.state.web
    last_id = request.headers.get("last-event-id")
    return EventStream(topics_of(state.api.hub, last_id), state.api.listeners)


async def topics_of(
    hub: Hub, last_id: str | None, *, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes]:
    """The topics of what has happened, once for each poll: a page looks again, it is not told."""
    listener = hub.listen(frozenset(TOPICS), last_id)
    try:
        yield f"retry: {RETRY_MS}\n\n".encode()
        while not listener.is_closed:
            taken = await listener.take(heartbeat)
            if not taken:
                yield b": still here\n\n"
                continue
            is_lost = any(sent.event is None for sent in taken)
            topics = {sent.event.topic for sent in taken if sent.event is not None}
            data = "resync" if is_lost else ",".join(sorted(topics))
            yield f"id: {hub.id_of(taken[-1])}\ndata: {data}\n\n".encode()
    finally:
        hub.leave(listener)


routes = [Route("/live", live)]
