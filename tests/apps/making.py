"""The application of a process that a test has started: see `tests.workers.WorkerProcess`."""

from __future__ import annotations

import json
import os
from typing import Any

import rota


def make_app(settings: dict[str, Any] | None = None, name: str = "tests") -> rota.App:
    """The application that the modules beside this one declare their jobs on."""
    given = settings if settings is not None else json.loads(os.environ["ROTA_TEST_SETTINGS"])
    config = rota.Config.load(
        env={}, unchecked=given, database_url=os.environ["ROTA_TEST_DATABASE"]
    )
    return rota.App(config=config, name=name)
