"""PgQueuer, asyncpg pool of 4, batches of 500, uvloop."""

from __future__ import annotations

from bench.systems.peers import PythonPeer


class PgQueuer(PythonPeer):
    name = "pgqueuer"
    program = "bench.programs.pgqueuer"
    packages = ("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0")
    open_sql = "SELECT EXISTS (SELECT FROM pgqueuer)"
