"""Watched tables: what is read, and their operations."""

from __future__ import annotations

from rota.api.operations import add_operations
from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.operations.watches import WatchCommands

routes = router("watches")

add_read(routes, "/watches", "list_watches", "watches", WatchCommands.list)
add_read(routes, "/watches/{watch:int}", "get_watch", "watches", WatchCommands.get, problems(404))
add_operations(routes, "watches")
