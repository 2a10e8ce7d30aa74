"""What is measured: Rota, the floor under it, and its peers.

To add one: a program with the command line of `bench.programs`, a file here that copies
`pgqueuer.py`, and its name in `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.server import Server
from bench.systems.base import System
from bench.systems.floor import Floor
from bench.systems.graphile import Graphile
from bench.systems.pgboss import PgBoss
from bench.systems.pgqueuer import PgQueuer
from bench.systems.procrastinate import Procrastinate
from bench.systems.rota import Rota

SYSTEMS: Mapping[str, type[System]] = {
    system.name: system for system in (Rota, Floor, PgQueuer, Graphile, PgBoss, Procrastinate)
}
OURS = ("rota", "floor")
DEFAULT = (*OURS, "pgqueuer", "graphile", "pgboss")


def make(name: str, server: Server, peers_dir: Path) -> System:
    return SYSTEMS[name](server, peers_dir)
