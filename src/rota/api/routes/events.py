"""Business events, which start jobs. Rota's own events are those of the stream."""

from __future__ import annotations

from datetime import datetime

from rota.api.operations import add_page, routes_of
from rota.api.reads import add_read
from rota.model.table_watch import Refusal
from rota.operations.events import EventCommands
from rota.operations.reading import plan_behind

routes = routes_of("events", int)

add_read(routes, "/events/bindings", "list_event_bindings", "events", EventCommands.bindings)
add_page(
    routes,
    "/events/refusals",
    "list_refusals",
    "events",
    plan_behind(EventCommands.refusals),
    Refusal,
    (datetime, str, str, str, str),
)
