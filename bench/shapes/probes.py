"""Single questions asked of a standing table, in milliseconds: what the missing index costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import psycopg

from bench.shapes import schema, statements
from bench.shapes.scenarios import Sizes, install, load
from bench.shapes.schema import hot_table
from bench.shapes.server import Server
from bench.shapes.variant import A, B, D, Variant

RUNNING = 5_000
LOST = 100  # how many of them a lost worker has
WORKER = 7
CLAIM = 100
REPEATS = 11

VARIANTS = [B, replace(B, name="b nowindex", has_worker_index=False), D]
PREPARED = [replace(B, name="b plain join", is_pinned=False, claim_by="join"), B]


@dataclass(frozen=True)
class Probe:
    """The median of some tries, and their spread."""

    probe: str
    variant: str
    ms: float
    least: float
    most: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def probes(server: Server, sizes: Sizes) -> Iterator[Probe]:
    install(server, VARIANTS)
    for v in VARIANTS:
        load(server, partial(schema.enqueue, v, state="scheduled"), sizes.future)
        load(server, partial(schema.enqueue, v), RUNNING + sizes.rows)
    with server.connect() as connection:
        for v in VARIANTS:
            last = _take(connection, v)
            connection.execute(f"VACUUM ANALYZE {hot_table(v)}".encode())
            yield _probe(v, "claim 100, no hint, behind 5,000 long runs", _claim(connection, v, 0))
            yield _probe(v, "claim 100, hint", _claim(connection, v, last))
            yield _probe(v, "runs of a lost worker", _rescue(connection, v))
            load(server, partial(schema.enqueue, v), sizes.future)
            times = _rescue(connection, v)
            yield _probe(v, "runs of a lost worker, a million queued besides", times)


def prepared(server: Server, sizes: Sizes) -> Iterator[Probe]:
    """A worker waits on an empty queue, its plan is made and kept; then many runs arrive."""
    variants = [replace(v, name=f"{v.name} early") for v in PREPARED]
    install(server, variants)
    with server.connect() as connection:
        for v in variants:
            for _ in range(10):
                connection.execute(statements.claim(v).encode(), _arguments(0, CLAIM), prepare=True)
            load(server, partial(schema.enqueue, v), sizes.future // 10)
            times = _claim(connection, v, 0)
            yield _probe(v, "claim 100 of 100,000 that came after the plan was made", times)


def retention(server: Server, sizes: Sizes) -> Iterator[Probe]:
    """Remove one week of four from the history."""
    week = "date_trunc('week', now()) - interval '3 weeks'"
    removals = {
        A: [f"DELETE FROM {hot_table(A)} WHERE finished_at < {week}", f"VACUUM {hot_table(A)}"],
        B: [f"DROP TABLE {B.schema}.ended_standard_1"],
    }
    install(server, list(removals))
    for v in removals:
        load(server, partial(schema.preload_finished, v), 3 * sizes.future)
    with server.connect() as connection:
        for v, commands in removals.items():
            connection.execute("CHECKPOINT")
            started = time.perf_counter()
            for command in commands:
                connection.execute(command.encode())
            times = [time.perf_counter() - started]
            yield _probe(v, "remove the oldest of four weeks of 3 million finished", times)


def _take(connection: psycopg.Connection[Any], v: Variant) -> int:
    """Long attempts: claimed, never finished. Returns the place that the claim reached."""
    claim = statements.claim(v).encode()
    connection.execute(claim, _arguments(0, RUNNING - LOST))
    rows = connection.execute(claim, {**_arguments(0, LOST), "worker": WORKER}).fetchall()
    return max(int(row[1]) for row in rows)


def _arguments(hint: int, size: int) -> dict[str, Any]:
    return {"queue": "default", "hints": [hint] * 10, "worker": 8, "size": size}


def _claim(connection: psycopg.Connection[Any], v: Variant, hint: int) -> list[float]:
    times = []
    for _ in range(REPEATS):
        with connection.transaction(force_rollback=True):
            started = time.perf_counter()
            connection.execute(
                statements.claim(v).encode(), _arguments(hint, CLAIM), prepare=True
            ).fetchall()
            times.append(time.perf_counter() - started)
    return times


def _rescue(connection: psycopg.Connection[Any], v: Variant) -> list[float]:
    running = (
        f"is_ready AND worker = {WORKER}"
        if v.shape == "d"
        else f"state = 'running' AND worker = {WORKER}"
    )
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        query = f"SELECT id, attempt FROM {hot_table(v)} WHERE {running}"
        found = connection.execute(query.encode()).fetchall()
        times.append(time.perf_counter() - started)
        if len(found) != LOST:
            raise RuntimeError(f"{v.name}: found {len(found)} of {LOST} running")
    return times


def _probe(v: Variant, question: str, times: list[float]) -> Probe:
    ms = [round(seconds * 1e3, 2) for seconds in times]
    return Probe(question, v.name, median(ms), min(ms), max(ms))
