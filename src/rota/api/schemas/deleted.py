"""The result of a deletion."""

from __future__ import annotations

from pydantic import Field

from rota.api.schemas.views import Body, examples


class Deleted(Body):
    """The deleted object."""

    model_config = examples({"name": "digest", "cancelled_runs": 0})

    name: str = Field(description="Name.")
    cancelled_runs: int = Field(description="Number of its runs that were cancelled.")
