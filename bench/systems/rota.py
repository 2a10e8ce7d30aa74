"""Rota as a user gets it: all settings at their defaults."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.systems.base import System
from rota.app import release


class Rota(System):
    name = "rota"
    program = "bench.programs.rota"
    place_sql = "SELECT last_value FROM rota.run_ids"
    open_sql = "SELECT EXISTS (SELECT FROM rota.open_runs WHERE id > %s)"
    schema = "rota"
    has_sync = True

    @property
    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", self.program]

    def version(self) -> str:
        return release()
