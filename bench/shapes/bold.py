"""Claims as ranges, and immutable runs with batches of ends, against today's tables; and these
against what they were before a drain ended runs by a walk over their ids.

Each shape is as far as a drain of plain runs needs it: a bound on what it could bring, before what
its promises would cost. What came out: docs/decisions/0033-bolder-shapes.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.shapes.measure import Figure, cpu_seconds
from bench.shapes.scenarios import Sizes
from bench.shapes.server import Server
from rota.postgres.migrate import migrate

Conn = psycopg.Connection[Any]
Step = Callable[[Conn, int, int, int], tuple[int, int]]  # worker, size, hint → ended, new hint

_COLUMNS = (
    "id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,"
    " max_attempts"
)
_RUNS = (
    "SELECT n, n, now(), clock_timestamp(), now(), 'queued', 'default', 'work', '',"
    " jsonb_build_object('user_id', n, 'locale', 'en'), 5, 5 FROM generate_series(%s::bigint, %s) n"
)
_CLAIM = (
    "SELECT id, seq, attempt, payload FROM rota.claim_runs(%s, %s, '{default}', %s, '{work}',"
    " array_fill(%s::bigint, ARRAY[10]))"
)


@dataclass(frozen=True)
class Shape:
    name: str
    hot: str
    enqueue: tuple[str, ...]
    step: Step
    fold: str | None = None
    fillfactor: int = 45


def _today(conn: Conn, worker: int, size: int, hint: int) -> tuple[int, int]:
    rows = conn.execute(_CLAIM, [worker, size, size, hint], binary=True).fetchall()
    if rows:
        ids = [row[0] for row in rows]
        width = max(ids) - min(ids) + 1
        _end(
            conn, "SELECT rota.finish_span(%s, %s, 1, %s::bigint[])", worker, min(ids), [12] * width
        )
    return len(rows), max((row[1] for row in rows), default=hint)


def _before(conn: Conn, worker: int, size: int, hint: int) -> tuple[int, int]:
    rows = conn.execute(_CLAIM, [worker, size, size, hint], binary=True).fetchall()
    if rows:
        ids, ones = [row[0] for row in rows], [1] * len(rows)
        sql = "SELECT count(*) FROM rota.finish_runs(%s, %s::bigint[], %s::int[], %s::real[])"
        _end(conn, sql, worker, ids, ones, [0.012] * len(rows))
    return len(rows), max((row[1] for row in rows), default=hint)


def _ranges(conn: Conn, worker: int, size: int, hint: int) -> tuple[int, int]:
    sql = "SELECT claim, ids, payloads FROM bold.claim_range(%s, 'default', 5, %s)"
    claim, ids, _ = conn.execute(sql, [worker, size]).fetchone() or (None, [], [])
    if claim is not None:
        _end(conn, "SELECT bold.end_range(%s, %s, %s::bigint[])", worker, claim, [12] * len(ids))
    return len(ids or []), hint


def _immutable(conn: Conn, worker: int, size: int, hint: int) -> tuple[int, int]:
    sql = "SELECT id, seq, attempt, payload FROM bold.claim_entries(%s, 'default', 5, %s, %s)"
    rows = conn.execute(sql, [worker, hint, size], binary=True).fetchall()
    if rows:
        first, last = min(row[1] for row in rows), max(row[1] for row in rows)
        sql = "SELECT bold.end_entries(%s, 'default', 5, %s, %s, 1, %s::bigint[])"
        _end(conn, sql, worker, first, last, [12] * (last - first + 1))
    return len(rows), max((row[1] for row in rows), default=hint)


def _end(conn: Conn, sql: str, *words: object) -> None:
    conn.execute(sql, words)


SHAPES = (
    Shape(
        "before",
        "rota.open_runs",
        (f"INSERT INTO rota.open_runs ({_COLUMNS}) {_RUNS}",),
        _before,
        fillfactor=50,
    ),
    Shape(
        "today",
        "rota.open_runs",
        (f"INSERT INTO rota.open_runs ({_COLUMNS}) {_RUNS}",),
        _today,
    ),
    Shape(
        "ranges",
        "bold.open_runs",
        (f"INSERT INTO bold.open_runs ({_COLUMNS}) {_RUNS}",),
        _ranges,
    ),
    Shape(
        "immutable",
        "bold.entries",
        (
            f"INSERT INTO bold.runs ({_COLUMNS}) {_RUNS}",
            "INSERT INTO bold.entries (id, seq, priority, queue)"
            " SELECT n, n, 5, 'default' FROM generate_series(%s::bigint, %s) n",
        ),
        _immutable,
        fold="SELECT bold.fold()",
    ),
)


def bold(server: Server, sizes: Sizes) -> Iterator[Figure]:
    migrate(server.dsn, "rota")
    with server.connect() as conn:
        conn.execute((Path(__file__).with_name("bold.sql")).read_bytes())
        conn.execute("INSERT INTO rota.jobs (name) VALUES ('work')")
    for round_ in range(1, sizes.repeats + 1):
        for batch in (100, 500):
            for workers in (1, 2):
                for shape in SHAPES:
                    yield from _measure(server, shape, batch, workers, round_, sizes.rows)


def _measure(
    server: Server, shape: Shape, batch: int, workers: int, round_: int, rows: int
) -> Iterator[Figure]:
    """One drain; of a shape that has still to fold its ends, that as a figure of its own."""
    with server.connect() as conn:
        _empty(conn)
        room = f"ALTER TABLE rota.open_runs SET (fillfactor = {shape.fillfactor})"
        conn.execute(room.encode())
        conn.execute("CHECKPOINT")
        start = _wal(conn)
        for sql in shape.enqueue:
            conn.execute(sql, [1, rows])
        enqueued, cpu = _wal(conn), cpu_seconds(server.pid)
        seconds = _drain(server, shape, batch, workers, rows)
        used, drained = cpu_seconds(server.pid) - cpu, _wal(conn)
        about = {"batch": batch, "workers": workers, "round": round_, "rows": rows}
        sums = (seconds, used, enqueued - start, drained - enqueued)
        yield _figure(conn, shape, shape.name, about, *sums)
        if shape.fold:
            started, cpu = time.monotonic(), cpu_seconds(server.pid)
            conn.execute(shape.fold.encode())
            seconds += time.monotonic() - started
            used += cpu_seconds(server.pid) - cpu
            sums = (seconds, used, enqueued - start, _wal(conn) - enqueued)
            yield _figure(conn, shape, f"{shape.name}, folded", about, *sums)


def _figure(
    conn: Conn,
    shape: Shape,
    name: str,
    about: Mapping[str, int],
    seconds: float,
    cpu: float,
    enqueue_wal: int,
    drain_wal: int,
) -> Figure:
    rows = about["rows"]
    size = conn.execute("SELECT pg_total_relation_size(%s)", [shape.hot]).fetchone()
    return Figure(
        experiment="bold",
        variant=name,
        batch=about["batch"],
        workers=about["workers"],
        round=about["round"],
        rows=rows,
        runs_per_second=rows / seconds,
        server_cpu_us=cpu / rows * 1e6,
        enqueue_wal_bytes=enqueue_wal / rows,
        drain_wal_bytes=drain_wal / rows,
        hot_percent=0.0,
        hot_table_bytes=size[0] if size else 0,
        dead_tuples=0,
        vacuum_seconds=0.0,
    )


def _drain(server: Server, shape: Shape, batch: int, workers: int, rows: int) -> float:
    """Connections that are there and warm; the seconds from the first claim to the last end."""
    conns = [server.connect() for _ in range(workers)]
    names = [_register(conn) for conn in conns]
    for conn, name in zip(conns, names, strict=True):
        for _ in range(6):
            shape.step(conn, name, 0, 0)
    ended: list[int] = []

    def work(conn: Conn, worker: int) -> None:
        hint = 0
        while True:
            count, hint = shape.step(conn, worker, batch, hint)
            if not count:
                return
            ended.append(count)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(conns, names, strict=True)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - started
    for conn in conns:
        conn.close()
    time.sleep(0.1)  # their CPU is in the server's account when they are gone
    if sum(ended) != rows:
        raise RuntimeError(f"{shape.name}: {sum(ended)} of {rows} runs ended")
    return seconds


def _register(conn: Conn) -> int:
    row = conn.execute(
        "SELECT rota.register_worker('w', 'h', 1, '', '{}', '{work}', 8, 3600)"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _empty(conn: Conn) -> None:
    tables = ("open_runs", "runs", "entries", "ends", "claims", "lanes")
    conn.execute(f"TRUNCATE rota.open_runs, rota.ended_runs, {_bold(tables)}".encode())
    conn.execute("INSERT INTO bold.lanes (queue, priority) VALUES ('default', 5)")


def _bold(tables: tuple[str, ...]) -> str:
    return ", ".join(f"bold.{table}" for table in tables)


def _wal(conn: Conn) -> int:
    row = conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0
