"""Graphile Worker, 24 jobs at once, pool of 25, local queue of 500, completion in batches."""

from __future__ import annotations

from bench.systems.peers import NodePeer


class Graphile(NodePeer):
    name = "graphile"
    program = "graphile.cjs"
    packages = ("graphile-worker@0.17.3",)
    open_sql = "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)"
    schema = "graphile_worker"
    poll_seconds = 2.0
