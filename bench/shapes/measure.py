"""One measurement: enqueue, drain, and what that cost the server."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.shapes.drain import drain
from bench.shapes.schema import enqueue, hot_table, promote
from bench.shapes.server import Server
from bench.shapes.variant import Variant

TICKS = os.sysconf("SC_CLK_TCK")
ENQUEUE_BATCH = 1000


@dataclass(frozen=True)
class Figure:
    """What one drain gave; per run where a rate says nothing."""

    experiment: str
    variant: str
    batch: int
    workers: int
    round: int
    rows: int
    runs_per_second: float
    server_cpu_us: float
    enqueue_wal_bytes: float
    drain_wal_bytes: float
    hot_percent: float
    hot_table_bytes: int
    dead_tuples: int
    vacuum_seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def measure(
    server: Server,
    v: Variant,
    *,
    experiment: str,
    batch: int,
    workers: int,
    round_: int,
    rows: int,
    is_promoted: bool = False,
) -> Figure:
    with server.connect() as connection:
        # Full-page images depend on how long ago the last checkpoint was: start all alike.
        connection.execute("CHECKPOINT")
        start = _wal(connection)
        _enqueue(connection, v, rows, is_promoted=is_promoted)
        connection.execute("SELECT pg_stat_force_next_flush()")
        enqueued, updates, cpu = _wal(connection), _updates(connection, v), cpu_seconds(server.pid)
        ended, seconds = drain(server.dsn, v, size=batch, workers=workers)
        if ended != rows:
            raise RuntimeError(f"{v.name}: {ended} of {rows} runs ended")
        _wait_for_exits(connection)
        cpu = cpu_seconds(server.pid) - cpu
        drained = _wal(connection)
        figure = Figure(
            experiment=experiment,
            variant=v.name,
            batch=batch,
            workers=workers,
            round=round_,
            rows=rows,
            runs_per_second=rows / seconds,
            server_cpu_us=cpu / rows * 1e6,
            enqueue_wal_bytes=(enqueued - start) / rows,
            drain_wal_bytes=(drained - enqueued) / rows,
            **_traces(connection, v, updates),
        )
    return figure


def _enqueue(
    connection: psycopg.Connection[Any], v: Variant, rows: int, *, is_promoted: bool
) -> None:
    for first in range(1, rows, ENQUEUE_BATCH):
        last = min(rows, first + ENQUEUE_BATCH - 1)
        state = "scheduled" if is_promoted else "queued"
        connection.execute(enqueue(v, first, last, state).encode())
    if is_promoted:
        for _ in range(0, rows, ENQUEUE_BATCH):
            connection.execute(promote(v, ENQUEUE_BATCH).encode())


def _wait_for_exits(connection: psycopg.Connection[Any]) -> None:
    """A backend on its way out is in nobody's CPU count: wait until the postmaster has it."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'drain'"
    while (connection.execute(query).fetchone() or (0,))[0]:
        time.sleep(0.01)
    time.sleep(0.03)


def _traces(connection: psycopg.Connection[Any], v: Variant, before: tuple[int, int]) -> Any:
    """What the drain left behind, read before a vacuum that is timed as part of the price."""
    all_updates, hot_updates = (b - a for a, b in zip(before, _updates(connection, v), strict=True))
    table = hot_table(v)
    size, dead = connection.execute(
        "SELECT pg_total_relation_size(%(t)s::regclass), pg_stat_get_dead_tuples(%(t)s::regclass)",
        {"t": table},
    ).fetchone() or (0, 0)
    started = time.monotonic()
    connection.execute(f"VACUUM {table}".encode())
    return {
        "hot_percent": 100 * hot_updates / max(all_updates, 1),
        "hot_table_bytes": size,
        "dead_tuples": dead,
        "vacuum_seconds": time.monotonic() - started,
    }


def _wal(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0


def _updates(connection: psycopg.Connection[Any], v: Variant) -> tuple[int, int]:
    row = connection.execute(
        "SELECT pg_stat_get_tuples_updated(%(t)s::regclass),"
        " pg_stat_get_tuples_hot_updated(%(t)s::regclass)",
        {"t": hot_table(v)},
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)


def cpu_seconds(postmaster: int) -> float:
    """CPU used by the server so far: live children, and ended ones that the postmaster counted."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    ticks = 0
    for pid in [str(postmaster), *children]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS
