"""The body of a sync."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Len
from pydantic import Field

from rota.api.schemas.views import Body, examples


class SyncRequest(Body):
    """Operator changes to overwrite."""

    model_config = examples({"force": ["send_welcome"]})

    force: (
        bool | Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Len(0, 1000)]
    ) = Field(
        default=False,
        description="Jobs to reset to the code, overwriting operator changes; true: all of them.",
    )
