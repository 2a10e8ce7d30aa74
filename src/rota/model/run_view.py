"""A saved view: a named filter of the list of runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from rota.model.fields import Field

ViewName = Annotated[str, Field("View name.", "Failed today", shortest=1, longest=100)]
ViewQuery = Annotated[
    str,
    Field(
        "Filter, as in the page URL of the list of runs.",
        "state=failed&since=24h",
        shortest=1,
        longest=4000,
        metavar="FILTER",
    ),
]


@dataclass(frozen=True, slots=True)
class RunView:
    """A saved view of the list of runs. `query` is the filter as in its page URL:
    `state=failed&since=24h`."""

    name: ViewName
    query: ViewQuery
    created_by: Annotated[str, Field("Who saved it.", "ada")]
    created_at: Annotated[datetime, Field("When it was saved.")]
