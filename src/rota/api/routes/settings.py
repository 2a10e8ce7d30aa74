"""The configuration of this server, and the current time."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rota.api.routing import router
from rota.api.schemas.values import Instant
from rota.api.schemas.views import Body, examples, list_of, view_of
from rota.api.state import Scoped
from rota.config import describe
from rota.config.catalogue import SettingInfo, read_setting

routes = router("settings")


class ClockView(Body):
    """Time of the database's clock."""

    model_config = examples({"now": "2026-03-08T09:00:00Z"})

    now: Instant = Field(
        description="Current time of the database, which decides when runs are due."
    )


@routes.get("/config", response_model=list_of(view_of(SettingInfo)), operation_id="get_config")
async def get_config(scope: Scoped) -> Any:
    """List all settings of this server: value, source and allowed values."""
    return [read_setting(scope.app.config, setting.key) for setting in describe()]


@routes.get("/clock", response_model=ClockView, operation_id="get_clock")
async def get_clock(scope: Scoped) -> Any:
    """Get the current time of the database's clock, which decides when runs are due."""
    return {"now": await scope.clock.now()}
