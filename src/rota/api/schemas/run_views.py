"""Filters of the list of runs that have a name."""

from __future__ import annotations

from pydantic import BaseModel, Field

from rota.api.schemas.values import Reason
from rota.api.schemas.views import Body, examples, view
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


class RunViewList(BaseModel):
    """All of them, by name."""

    model_config = examples({"items": [_EXAMPLE]})

    items: list[RunViewView] = Field(description="By name.")  # type: ignore[valid-type]


class NewRunView(Body):
    """A filter, and why it gets a name."""

    model_config = examples({"query": "state=failed&since=24h"})

    query: str = Field(
        min_length=1, max_length=4000, description="Filter, as in the page URL of the list of runs."
    )
    reason: Reason = None
