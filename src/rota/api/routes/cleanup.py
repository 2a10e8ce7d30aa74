"""Cleanups: what is read, and their operations."""

from __future__ import annotations

from rota.api.operations import add_operations
from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.operations.cleanup import CleanupCommands

routes = router("cleanup")
_ONE = "/cleanup/{name}"

add_read(routes, "/cleanup", "list_cleanups", "cleanup", CleanupCommands.list)
add_read(routes, "/cleanup-recipes", "list_cleanup_recipes", "cleanup", CleanupCommands.recipes)
add_read(routes, "/cleanup-tables", "list_cleanup_tables", "cleanup", CleanupCommands.tables)
add_read(routes, _ONE, "get_cleanup", "cleanup", CleanupCommands.get, problems(404))
add_read(
    routes, f"{_ONE}/plan", "plan_cleanup", "cleanup", CleanupCommands.plan, problems(404, 422)
)
add_operations(routes, "cleanup")
