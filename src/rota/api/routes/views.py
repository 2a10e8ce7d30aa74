"""Saved views: the list; the rest follows from their operations."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, create_model

from rota.api.operations import add_operations
from rota.api.routing import router
from rota.api.schemas.views import example_of, examples, list_of, view_of
from rota.api.state import Scoped
from rota.model.run_view import RunView

routes = router("views")
RunViewList: type[BaseModel] = create_model(
    "RunViewList",
    __config__=examples({"items": [example_of(RunView)]}),
    __doc__="All saved views, by name.",
    items=(list_of(view_of(RunView)), Field(description="By name.")),
)


@routes.get("/views", response_model=RunViewList, operation_id="list_views")
async def list_views(scope: Scoped) -> Any:
    """List saved views: named filters for the list of runs."""
    return {"items": await scope.views.list()}


add_operations(routes, "views")
