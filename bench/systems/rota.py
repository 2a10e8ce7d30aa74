"""Rota as a user gets it: `rota worker`, all settings at their defaults."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from bench.pipe import Pipe
from bench.systems.base import System
from rota import __version__

PLACE = "SELECT last_value FROM rota.run_ids"
OPEN = "SELECT EXISTS (SELECT FROM rota.open_runs WHERE id > %s)"
_LIVE = "SELECT count(*) FROM rota.workers WHERE state = 'live'"


class Rota(System):
    name = "rota"
    place_sql = PLACE
    open_sql = OPEN
    schema = "rota"
    has_sync = True

    @property
    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "bench.programs.rota"]

    @property
    def work_command(self) -> Sequence[str]:
        return [sys.executable, "-m", "rota", "worker", "--app", "bench.apps.noop:app"]

    def readiness(self, pipe: Pipe) -> Callable[[float], int]:
        def live(seconds: float) -> int:
            time.sleep(seconds)
            with self.server.connect(self.database) as conn:
                row = conn.execute(_LIVE).fetchone()
            return int(row[0]) if row else 0

        return live

    def version(self) -> str:
        return __version__
