"""What was removed."""

from __future__ import annotations

from pydantic import Field

from rota.api.schemas.views import Body, examples


class Removed(Body):
    """The removed object."""

    model_config = examples({"name": "office"})

    name: str = Field(description="Name.")
