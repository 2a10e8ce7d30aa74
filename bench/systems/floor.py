"""Rota's statements without Rota."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.systems.base import System
from bench.systems.rota import OPEN, PLACE


class Floor(System):
    name = "floor"
    place_sql = PLACE
    open_sql = OPEN
    schema = "rota"
    has_sync = True
    has_steady = False
    has_bodies = False

    @property
    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "bench.programs.floor"]
