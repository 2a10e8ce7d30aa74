"""Procrastinate, only on request: it has no batches, so it is far from the others."""

from __future__ import annotations

from bench.systems.peers import PythonPeer


class Procrastinate(PythonPeer):
    name = "procrastinate"
    program = "bench.programs.procrastinate"
    packages = ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8", "uvloop==0.23.0")
    open_sql = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"
    poll_seconds = 5.0
    has_steady = False
