"""The stream of changes that tells open pages which of their parts to renew."""

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
from rota.web.watch import Watch

_FEW, _EACH_SECONDS, _MOST_SECONDS = 20, 0.1, 5.0


async def live(request: Request) -> Response:
    """One stream a browser, whatever its pages show: they take what concerns them."""
    state: WebState = request.app.state.web
    last_id = request.headers.get("last-event-id", request.query_params.get("after"))
    topics = topics_of(state.api.hub, last_id, state.watch)
    return EventStream(topics, state.api.listeners)


async def topics_of(
    hub: Hub, last_id: str | None, watch: Watch, *, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes]:
    """The topics of what has happened, once for each poll: a page looks again, it is not told.
    What needs somebody is a topic, too: it changes by time alone, so that it is compared. At once
    it says what its reader has missed, or that there is nothing."""
    listener = hub.listen(frozenset(TOPICS), last_id)
    known, patience = await watch.attention(), 0.0
    try:
        yield f"retry: {RETRY_MS}\n\n".encode()
        while not listener.is_closed:
            taken, patience = await take(listener, patience, pace_of(hub.listening)), heartbeat
            seen = await watch.attention()
            news = _news(known, seen)
            known = seen or known
            if not taken and not news:
                # Not a comment, which a script does not see: silence means that the stream is lost.
                yield b"event: beat\ndata: \n\n"
                continue
            is_lost = any(sent.event is None for sent in taken)
            topics = news | {sent.event.topic for sent in taken if sent.event is not None}
            data = "resync" if is_lost else ",".join(sorted(topics))
            place = f"id: {hub.id_of(taken[-1])}\n" if taken else ""
            yield f"{place}data: {data}\n\n".encode()
    finally:
        hub.leave(listener)


def pace_of(listening: int) -> float:
    """The least time between two news, in seconds: the more pages are open, the rarer each of them
    looks, so that all together ask as much as ten would each second."""
    return min(listening * _EACH_SECONDS, _MOST_SECONDS) if listening > _FEW else 0.0


async def take(listener: StreamClient, patience: float, pace: float) -> list[Sent]:
    """At the same moments for all, because what several ask for at once is made once. What somebody
    has done is told at once."""
    taken = await listener.take(patience)
    if not taken or not pace or any(it.event and it.event.topic == "audit" for it in taken):
        return taken
    await listener.rest(pace - time.monotonic() % pace)
    return taken + await listener.take(0)


def _news(known: Attention | None, seen: Attention | None) -> set[str]:
    """`alarm` when there are more or fewer things than before, `attention` when one of them has
    changed; that time goes on is no news."""
    if seen is None or _substance(seen) == _substance(known):
        return set()
    has_count = known is not None and known.kinds == seen.kinds
    return {"attention"} if has_count else {"attention", "alarm"}


def _substance(found: Attention | None) -> list[object]:
    return [] if found is None else [found.kinds, *(one.substance for one in found.needs)]


@dataclass(frozen=True, slots=True)
class NavigationPage(Page):
    """The navigation alone, for a page that is open: the page itself is not made again for it."""

    template: ClassVar[str] = "navigation.html"

    @property
    def title(self) -> str:
        return "Navigation"


async def navigation(request: Request) -> Response:
    section = request.query_params.get("section", "")
    return await PageScope(request).show(NavigationPage(), section=section)


routes = [Route("/live", live), Route("/navigation", navigation)]
