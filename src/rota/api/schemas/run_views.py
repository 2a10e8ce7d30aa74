"""Saved views: named filters of the list of runs."""

from __future__ import annotations

from pydantic import BaseModel, Field, create_model

from rota.api.schemas.values import Reason
from rota.api.schemas.views import Body, example_of, examples, list_of, view_of
from rota.model.run_view import RunView

RunViewView = view_of(RunView)


RunViewList: type[BaseModel] = create_model(
    "RunViewList",
    __config__=examples({"items": [example_of(RunView)]}),
    __doc__="All saved views, by name.",
    items=(list_of(RunViewView), Field(description="By name.")),
)


class NewRunView(Body):
    """Filter to save."""

    model_config = examples({"query": "state=failed&since=24h"})

    query: str = Field(
        min_length=1, max_length=4000, description="Filter, as in the page URL of the list of runs."
    )
    reason: Reason = None
