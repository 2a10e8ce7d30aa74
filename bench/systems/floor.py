"""Rota's statements without Rota."""

from __future__ import annotations

from bench.systems.rota import Rota


class Floor(Rota):
    name = "floor"
    program = "bench.programs.floor"
    has_bodies = False
