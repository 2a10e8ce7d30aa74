"""The SQL functions of the engine as short Python calls, for tests without a runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

Row = dict[str, Any]


def listen_to_all(conn: psycopg.Connection[Any]) -> str:
    """Hears what all workers hear; returns the channel."""
    row = conn.execute("SELECT channel FROM rota.settings").fetchone()
    assert row is not None
    conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(row[0])))
    return str(row[0])


class Engine:
    """Speaks to `rota.*` on one connection; every call is its own transaction unless the
    connection is in one."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    # Asking.

    def rows(self, query: str, *params: Any) -> list[Row]:
        cursor = self.conn.cursor(row_factory=dict_row)
        cursor.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *params: Any) -> Any:
        """The only value of the only row; None where there is no row."""
        row = self.conn.execute(query, params or None).fetchone()
        return row[0] if row else None

    def set_schedule_state(self, schedule: str, **columns: Any) -> None:
        named = ", ".join(f"{column} = %s" for column in columns)
        self.rows(
            f"""UPDATE rota.schedule_state SET {named} WHERE schedule_id IN
                (SELECT id FROM rota.schedules WHERE name = %s)""", *columns.values(), schedule,
        )  # fmt: skip

    def run(self, run_id: int) -> Row:
        (row,) = self.rows("SELECT * FROM rota.runs WHERE id = %s", run_id)
        return row

    def state(self, run_id: int) -> str:
        return str(self.run(run_id)["state"])

    def attempts(self, run_id: int) -> list[Row]:
        return self.rows("SELECT * FROM rota.attempts WHERE run_id = %s ORDER BY attempt", run_id)

    def attempt_states(self, run_id: int) -> list[str]:
        return [row["state"] for row in self.attempts(run_id)]

    def audit(self, object_id: object) -> list[Row]:
        return self.rows(
            "SELECT * FROM rota.audit WHERE object_id = %s ORDER BY id", str(object_id)
        )

    # Making.

    def job(self, name: str = "work", **columns: Any) -> str:
        self._insert("jobs", {"name": name, **columns})
        return name

    def enqueue(self, job: str = "work", payload: Any = None, **options: Any) -> int:
        return int(self.enqueue_run(job, payload, **options)["run_id"])

    def enqueue_run(self, job: str = "work", payload: Any = None, **options: Any) -> Row:
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder())
            for name in ("job", "payload", *options)
        )
        query = sql.SQL("SELECT * FROM rota.enqueue_run({})").format(named)
        cursor = self.conn.cursor(row_factory=dict_row)
        values = [_json(value) for value in options.values()]
        cursor.execute(query, [job, json.dumps({} if payload is None else payload), *values])
        row = cursor.fetchone()
        assert row is not None
        return row

    def worker(self, *jobs: str, lease: float = 60, queues: Sequence[str] = ()) -> int:
        return int(
            self.one(
                "SELECT rota.register_worker('w', 'host', 1, '', %s, %s, 10, %s)",
                list(queues),
                list(jobs or ("work",)),
                lease,
            )
        )

    def _insert(self, table: str, columns: Row) -> None:
        query = sql.SQL("INSERT INTO rota.{} ({}) VALUES ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
        )
        self.conn.execute(query, [_json(value) for value in columns.values()])

    # What workers do.

    def claim(
        self,
        worker: int,
        limit: int = 10,
        queues: Sequence[str] = ("default",),
        jobs: Sequence[str] = ("work",),
        *,
        quota: int | None = None,
        batch: int | None = None,
        start_batch: int | None = None,
        hints: Sequence[int] = (),
        lane: str = "",
    ) -> list[Row]:
        rows = self.rows(
            "SELECT * FROM rota.claim_runs(%s, %s, %s, %s, %s, %s::bigint[], %s, %s, %s)",
            worker, limit, list(queues), quota or limit, list(jobs), list(hints), batch,
            start_batch, lane,
        )  # fmt: skip
        return sorted(rows, key=lambda row: (row["priority"], row["seq"]))

    def claim_one(self, worker: int, **options: Any) -> Row:
        (row,) = self.claim(worker, 1, **options)
        return row

    def claim_suspect(
        self, worker: int, jobs: Sequence[str] = ("work",), *, inline: Sequence[str] = ()
    ) -> list[Row]:
        return self.rows(
            "SELECT * FROM rota.claim_suspect(%s, '{}', %s, %s)", worker, list(jobs), list(inline)
        )

    def succeed(self, worker: int, *claims: Row, result: Any = None) -> list[int]:
        return self._ids(
            "SELECT rota.finish_runs(%s, %s::bigint[], %s::int[], %s::real[], %s::text[]::jsonb[])",
            worker,
            [claim["id"] for claim in claims],
            [claim["attempt"] for claim in claims],
            [1.0] * len(claims),
            None if result is None else [json.dumps(result)] * len(claims),
        )

    def succeed_span(
        self, worker: int, *claims: Row, result: Any = None, missing: Sequence[int] = ()
    ) -> int:
        """As a drain ends plain runs; `missing` ids have not ended."""
        ids = [claim["id"] for claim in claims]
        places = range(min(ids), max(ids) + 1)
        return int(
            self.one(
                "SELECT rota.finish_span(%s, %s, %s, %s::bigint[], %s::text[]::jsonb[])",
                worker,
                places[0],
                claims[0]["attempt"],
                [-1 if place in missing else 1000 for place in places],
                None if result is None else [json.dumps(result)] * len(places),
            )
        )

    def fail(
        self, worker: int, claim: Row, error: str = "boom", *, state: str = "failed",
        attempt_state: str = "failed", reason: str = "attempts used up",
    ) -> list[int]:  # fmt: skip
        return self._ids(
            "SELECT rota.finish_runs(%s, %s::bigint[], %s::int[], %s::real[], NULL, %s::text[],"
            " %s::text[], %s::text[], NULL, %s::text[], %s::text[], NULL)",
            worker, [claim["id"]], [claim["attempt"]], [1.0], [state], [attempt_state], [reason],
            ["ValueError"], [error],
        )  # fmt: skip

    def requeue(
        self, worker: int, claim: Row, delay: float | None = 0.0, *, state: str = "failed",
        spent: bool = True, error: str | None = "boom",
    ) -> list[int]:  # fmt: skip
        return self._ids(
            "SELECT rota.requeue_runs(%s, %s::bigint[], %s::int[], %s::real[], %s::text[],"
            " %s::double precision[], %s, NULL, NULL, %s::text[], NULL)",
            worker, [claim["id"]], [claim["attempt"]], [1.0], [state], [delay], [spent], [error],
        )  # fmt: skip

    def hand_back(self, worker: int, *claims: Row) -> list[int]:
        return self._ids(
            "SELECT rota.hand_back_runs(%s, %s::bigint[], %s::int[])",
            worker,
            [claim["id"] for claim in claims],
            [claim["attempt"] for claim in claims],
        )

    def _ids(self, query: str, *params: Any) -> list[int]:
        return [row[0] for row in self.conn.execute(query, params).fetchall()]

    # What happens to workers, and who cleans up.

    def lose(self, worker: int) -> None:
        """Its lease runs out and somebody notices: at once, so that neither its own heartbeat nor a
        rescuer comes between."""
        with self.conn.transaction():
            self.expire(worker)
            assert worker in [row["worker"] for row in self.mark_lost()]

    def expire(self, worker: int) -> None:
        self.conn.execute(
            "UPDATE rota.workers SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE id = %s",
            [worker],
        )

    def mark_lost(self) -> list[Row]:
        return self.rows("SELECT * FROM rota.mark_lost_workers()")

    def rescue(self, limit: int = 100, everywhere: bool = False) -> dict[int, str]:
        rows = self.rows("SELECT * FROM rota.rescue_runs(%s, %s)", limit, everywhere)
        return {row["run_id"]: row["decision"] for row in rows}

    def progress(self, worker: int, claim: Row, fraction: float, message: str | None) -> None:
        self.conn.execute(
            "SELECT rota.report_progress(%s, %s::bigint[], %s::int[], %s::real[], %s::text[])",
            [worker, [claim["id"]], [claim["attempt"]], [fraction], [message]],
        )

    def beat(self, worker: int) -> bool:
        return bool(self.one("SELECT rota.beat(%s)", worker))

    def promote(self, limit: int = 1000) -> int:
        return int(self.one("SELECT promoted FROM rota.promote_runs(%s)", limit))

    def count_depths(self) -> None:
        """Now, however lately that was done."""
        self.conn.execute("UPDATE rota.count_marks SET counted_at = '2000-01-01'")
        self.conn.execute("SELECT rota.count_depths(0)")

    def park(self) -> int:
        self.count_depths()
        return self.park_counted()

    def park_counted(self) -> int:
        return int(self.one("SELECT rota.park_unknown_runs(1000)"))

    def free(self) -> int:
        return int(self.one("SELECT rota.free_known_runs(1000)"))

    def cancel(self, run_id: int, reason: str | None = None, actor: str | None = None) -> str:
        return str(self.one("SELECT rota.cancel_run(%s, %s, %s)", run_id, reason, actor))

    def retry(self, run_id: int, **options: Any) -> int:
        named = "".join(f", {name} => %s" for name in options)
        values = [_json(value) for value in options.values()]
        return int(self.one(f"SELECT rota.retry_run(%s{named})", run_id, *values))

    def advance(self, seconds: float) -> None:
        self.conn.execute(
            "SELECT rota.set_clock(rota.now() + make_interval(secs => %s))", [seconds]
        )


def _json(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value
