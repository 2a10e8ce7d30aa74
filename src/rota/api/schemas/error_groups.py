"""Error groups."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from rota.api.schemas.views import page, view_of
from rota.model.error_group import ErrorDetails, ErrorGroup

Standing = Literal["new", "back", "known", "handled", "quiet"]

ErrorGroupView = view_of(ErrorGroup)
ErrorGroupPage = page(
    ErrorGroupView,
    standings=(
        dict[str, int],
        Field(description="Number of matching groups by standing."),
    ),
    since=(datetime, Field(description="Start of the counted period.")),
    failures=(int, Field(description="All matching failures in the period.")),
)
ErrorDetailsView = view_of(ErrorDetails)
