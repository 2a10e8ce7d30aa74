"""pg-boss, batches of 1,000, two fetchers a process, LISTEN/NOTIFY."""

from __future__ import annotations

from bench.systems.peers import NodePeer


class PgBoss(NodePeer):
    name = "pgboss"
    program = "pgboss.cjs"
    packages = ("pg-boss@12.35.0",)
    open_sql = "SELECT EXISTS (SELECT FROM pgboss.job WHERE state < 'completed')"
    schema = "pgboss"
    poll_seconds = 0.5
