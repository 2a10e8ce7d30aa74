"""The configuration of this server, and the current time."""

from __future__ import annotations

from typing import Any

from rota.api.routing import router
from rota.api.schemas.fleet import ClockView, SettingView
from rota.api.state import Scoped
from rota.config import Config, describe
from rota.config.catalogue import find_setting

routes = router("settings")


@routes.get("/config", response_model=list[SettingView], operation_id="get_config")
async def get_config(scope: Scoped) -> Any:
    """List all settings of this server: value, source and allowed values."""
    return [_entry(scope.app.config, setting.key) for setting in describe()]


@routes.get("/clock", response_model=ClockView, operation_id="get_clock")
async def get_clock(scope: Scoped) -> Any:
    """Get the current time of the database's clock, which decides when runs are due."""
    return {"now": await scope.clock.now()}


def _entry(config: Config, key: str) -> dict[str, Any]:
    setting = find_setting(key)
    value = config.get(key)
    return {
        "key": key,
        "value": config.show(key) if setting.is_secret and value is not None else value,
        "source": config.source(key),
        "default": setting.default,
        "accepts": setting.expects,
        "variable": setting.env,
        "description": setting.description,
    }
