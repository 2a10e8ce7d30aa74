"""The stream of changes that makes open pages reload their parts."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.slots import EventStream
from rota.api.stream import HEARTBEAT_SECONDS, RETRY_MS, Hub, Sent, StreamClient
from rota.model.attention import Attention
from rota.telemetry.events import TOPICS
from rota.web.context import Page
from rota.web.page_scope import PageScope, WebState
from rota.web.shared_reads import SharedReads

_FEW, _EACH_SECONDS, _MOST_SECONDS = 20, 0.1, 5.0


async def live(request: Request) -> Response:
    """One stream per browser, whatever its pages show; each page picks its topics."""
    state: WebState = request.app.state.web
    last_id = request.headers.get("last-event-id", request.query_params.get("after"))
    topics = topics_of(state.api.hub, last_id, state.watch)
    return EventStream(topics, state.api.listeners)


async def topics_of(
    hub: Hub, last_id: str | None, watch: SharedReads, *, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes]:
    """Yield the topics of the changes, once per poll; pages then reload their data. Attention is a
    topic too: it can change without an event, so it is compared at each poll. The first message
    names the topics that the client has missed, or none. While the changes cannot be read, only
    messages of the kind `stale` are sent, and the first one after them makes all parts reload."""
    listener = hub.listen(frozenset(TOPICS), last_id, hears_outages=True)
    known, patience, was_stale = await watch.attention(), 0.0, False
    try:
        yield f"retry: {RETRY_MS}\n\n".encode()
        while not listener.is_closed:
            taken, patience = await take(listener, patience, pace_of(hub.listening)), heartbeat
            if not taken and (since := hub.stale_since) is not None:
                was_stale = True
                yield f"event: stale\ndata: {since.isoformat()}\n\n".encode()
                continue
            seen = await watch.attention()
            news = _news(known, seen)
            known = seen or known
            if not taken and not news and not hub.has_looked:
                yield b": not read yet\n\n"
                continue
            if not taken and not news and not was_stale:
                # Not a comment, which scripts do not receive: without beats the script assumes that
                # the stream broke.
                yield b"event: beat\ndata: \n\n"
                continue
            is_lost = was_stale or any(sent.event is None for sent in taken)
            was_stale = False
            topics = news | {sent.event.topic for sent in taken if sent.event is not None}
            data = "resync" if is_lost else ",".join(sorted(topics))
            place = f"id: {hub.id_of(taken[-1])}\n" if taken else ""
            yield f"{place}data: {data}\n\n".encode()
    finally:
        hub.leave(listener)


def pace_of(listening: int) -> float:
    """Return the least time between two messages, in seconds: the more pages are open, the less
    often each reloads, so that all together send about as many requests as ten pages that reload
    each second."""
    return min(listening * _EACH_SECONDS, _MOST_SECONDS) if listening > _FEW else 0.0


async def take(listener: StreamClient, patience: float, pace: float) -> list[Sent]:
    """Take messages at the same moments for all clients, because simultaneous requests share one
    result. Changes by users are sent at once."""
    taken = await listener.take(patience)
    if not taken or not pace or any(sent.event and sent.event.topic == "audit" for sent in taken):
        return taken
    await listener.rest(pace - time.monotonic() % pace)
    return taken + await listener.take(0)


def _news(known: Attention | None, seen: Attention | None) -> set[str]:
    """Return `alarm` if the number of items has changed, `attention` if an item has; a longer
    duration alone is no change."""
    if seen is None or _substance(seen) == _substance(known):
        return set()
    has_count = known is not None and known.kinds == seen.kinds
    return {"attention"} if has_count else {"attention", "alarm"}


def _substance(found: Attention | None) -> list[object]:
    return [] if found is None else [found.kinds, *(need.substance for need in found.needs)]


@dataclass(frozen=True, slots=True)
class NavigationPage(Page):
    """The navigation alone, for an open page, which is not rendered again for it."""

    template: ClassVar[str] = "navigation.html"

    @property
    def title(self) -> str:
        return "Navigation"


async def navigation(request: Request) -> Response:
    section = request.query_params.get("section", "")
    return await PageScope(request).show(NavigationPage(), section=section)


routes = [Route("/live", live), Route("/navigation", navigation)]
