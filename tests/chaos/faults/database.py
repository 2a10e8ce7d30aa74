"""What happens in the database, and to it."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from typing import Any, Literal

import psycopg
from psycopg import sql

from rota.testing import eventually_sync
from tests.chaos.faults.base import Fault
from tests.chaos.stage import Stage
from tests.embedded.places import is_alive, server_pid

# Everything that a loop of a worker, an enqueue or the end of a run writes to.
TABLES = (
    "batch_starts", "builds", "count_changes", "counts", "depth_marks", "depths", "fleets",
    "id_marks", "job_applications", "job_counts", "jobs", "keys", "ledger", "log_spans",
    "open_runs", "partitioned", "queues", "rollup_minutes", "rollup_spans", "schedule_days",
    "schedule_holds", "schedules", "settings", "workers",
)  # fmt: skip
BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
ORDER BY random() LIMIT %s
"""


class KillBackends(Fault):
    """`pg_terminate_backend`, of all of them or of a few."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most

    def inject(self, stage: Stage) -> str:
        killed = stage.rows(f"SELECT pg_terminate_backend(b.pid) FROM ({BACKENDS}) b", self._most)
        return f"{len(killed)} backends are ended"


class _OpenSession(Fault):
    """Somebody's psql, left open."""

    def _begin(self, stage: Stage) -> psycopg.Connection[Any]:
        self._conn = stage.connect()
        self._conn.execute("BEGIN")
        return self._conn

    def heal(self, stage: Stage) -> None:
        self._conn.close()


class LockedTable(_OpenSession):
    holds_up_all = True

    def __init__(self, table: str | None = None) -> None:
        self._table = table

    def inject(self, stage: Stage) -> str:
        table = self._table or stage.random.choice(TABLES)
        conn = self._begin(stage)
        conn.execute(sql.SQL("LOCK TABLE rota.{} IN ACCESS EXCLUSIVE MODE").format(_name(table)))
        return f"rota.{table} is locked"


class OpenTransaction(_OpenSession):
    """It holds one row of each of these tables, longer than a lease. Whatever is about other rows
    goes on."""

    seconds = 5.0

    def __init__(self, *tables: str) -> None:
        self._tables = tables

    def inject(self, stage: Stage) -> str:
        tables = self._tables or (stage.random.choice(TABLES),)
        conn = self._begin(stage)
        held = {table: row for table in tables if (row := _hold(conn, table))}
        # A worker or a schedule whose own row is held is not "somebody else".
        self._struck = [
            *held.get("workers", {}).get("queues", []),
            *[row["name"] for table, row in held.items() if table == "schedules"],
        ]
        return f"an open transaction holds a row of {', '.join(held) or 'nothing'}"

    def struck(self, stage: Stage) -> Collection[str]:
        return self._struck


def _hold(conn: psycopg.Connection[Any], table: str) -> dict[str, Any] | None:
    where = {
        "schedules": "WHERE NOT is_system",
        "workers": "WHERE state = 'live'",
    }
    query = sql.SQL(
        "SELECT to_jsonb(t) FROM rota.{} t {} ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED"
    ).format(_name(table), sql.SQL(where.get(table, "")))
    row = conn.execute(query).fetchone()
    return row[0] if row else None


class RestartServer(Fault):
    """Over TCP: `fast` as an administrator does, `immediate` as a crash is."""

    holds_up_all = True
    seconds = 0.5

    def __init__(self, mode: Literal["fast", "immediate", "killed"] = "fast") -> None:
        self._mode = mode

    def inject(self, stage: Stage) -> str:
        assert stage.server is not None
        signals = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "killed": signal.SIGKILL}
        pid = server_pid(stage.server.home)
        os.kill(pid, signals[self._mode])
        eventually_sync(lambda: not is_alive(pid), 60)
        return f"the server is stopped ({self._mode})"

    def heal(self, stage: Stage) -> None:
        assert stage.server is not None
        stage.server.start()


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(table)
