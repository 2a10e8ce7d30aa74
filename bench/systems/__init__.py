"""What is measured: Rota, the floor under it, and its peers.

To add one: a program with the command line of `bench.programs`, a file here that copies
`pgqueuer.py`, and its name in `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.server import Server
from bench.systems import floor, rota
from bench.systems.base import System

SYSTEMS: Mapping[str, type[System]] = {
    "rota": rota.Rota,
    "floor": floor.Floor,
}
DEFAULT = ("rota", "floor")


def make(name: str, server: Server, peers_dir: Path) -> System:
    return SYSTEMS[name](server, peers_dir)
