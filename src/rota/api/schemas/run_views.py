"""Saved views: named filters of the list of runs."""

from __future__ import annotations

from pydantic import BaseModel, Field, create_model

from rota.api.schemas.values import Reason
from rota.api.schemas.views import Body, examples, list_of, view
from rota.model.run_view import RunView

_EXAMPLE = {
    "name": "Failed today",
    "query": "state=failed&since=24h",
    "created_by": "ada",
    "created_at": "2026-03-08T09:00:00Z",
}
RunViewView = view(
    RunView,
    "RunView",
    {
        "name": "Name.",
        "query": "Filter, as in the page URL of the list of runs.",
        "created_by": "Who saved it.",
        "created_at": "When it was saved.",
    },
    _EXAMPLE,
)


RunViewList: type[BaseModel] = create_model(
    "RunViewList",
    __config__=examples({"items": [_EXAMPLE]}),
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
