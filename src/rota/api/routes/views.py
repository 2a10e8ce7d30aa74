"""Saved views: named filters of the list of runs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from rota.api.routing import router
from rota.api.schemas import run_views as schemas
from rota.api.schemas.fleet import Removed
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import Why
from rota.api.state import Scoped

routes = router("views")
ViewName = Annotated[str, Path(min_length=1, max_length=100, description="View name.")]


@routes.get("/views", response_model=schemas.RunViewList, operation_id="list_views")
async def list_views(scope: Scoped) -> Any:
    """List saved views: named filters for the list of runs."""
    return {"items": await scope.views.list()}


@routes.put(
    "/views/{name}",
    response_model=schemas.RunViewList,
    operation_id="put_view",
    responses=problems(*WITH_BODY),
)
async def put_view(scope: Scoped, name: ViewName, body: schemas.NewRunView) -> Any:
    """Save a filter under this name, replacing any view with that name."""
    await scope.views.save(name, body.query, body.reason)
    return {"items": await scope.views.list()}


@routes.delete(
    "/views/{name}",
    response_model=Removed,
    operation_id="delete_view",
    responses=problems(404),
)
async def delete_view(scope: Scoped, name: ViewName, reason: Why = None) -> Any:
    """Delete a saved view. Its runs are not affected."""
    await scope.views.delete(name, reason)
    return {"name": name}
