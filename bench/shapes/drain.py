"""Worker processes that empty a queue: claim, then finish and claim again in one round trip."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg

from bench.shapes import statements
from bench.shapes.variant import Variant

LANES = 10
Row = tuple[int, int, int, str, str, Any]

_context = multiprocessing.get_context("fork")


def drain(dsn: str, v: Variant, *, size: int, workers: int) -> tuple[int, float]:
    """Empty the queue; the number of runs ended and the seconds from first claim to last finish."""
    barrier = _context.Barrier(workers)
    answers: Queue[tuple[int, float, float]] = _context.Queue()
    children = [
        _context.Process(target=_work, args=(dsn, v, size, number + 1, barrier, answers))
        for number in range(workers)
    ]
    for child in children:
        child.start()
    got = [answers.get(timeout=300) for _ in children]
    for child in children:
        child.join(timeout=30)
    return sum(n for n, _, _ in got), max(e for _, _, e in got) - min(s for _, s, _ in got)


def _work(
    dsn: str,
    v: Variant,
    size: int,
    worker: int,
    barrier: Barrier,
    answers: Queue[tuple[int, float, float]],
) -> None:
    with psycopg.connect(dsn, autocommit=True, application_name="drain") as connection:
        loop = _Loop(connection, v, size, worker)
        loop.warm_up()
        barrier.wait(timeout=60)
        started = time.monotonic()
        ended = loop.run()
        answers.put((ended, started, time.monotonic()))


class _Loop:
    def __init__(
        self, connection: psycopg.Connection[Any], v: Variant, size: int, worker: int
    ) -> None:
        self.connection = connection
        self.claim_sql = statements.claim(v).encode()
        self.finish_sql = statements.finish(v).encode()
        self.has_hint = v.has_hint
        self.size = size
        self.worker = worker
        self.hint = 0

    def warm_up(self) -> None:
        """Prepare both statements, as a worker that has run for a while would have."""
        for _ in range(6):
            self._exchange([], size=0)

    def run(self) -> int:
        ended = 0
        rows = self._exchange([], size=self.size)
        while True:
            ended += len(rows)
            if not rows and not self.hint:
                return ended
            self.hint = max((row[1] for row in rows), default=0) if self.has_hint else 0
            rows = self._exchange(rows, size=self.size)

    def _exchange(self, done: list[Row], *, size: int) -> list[Row]:
        """Finish what is done and claim the next in one pipeline: one commit, one round trip."""
        with self.connection.pipeline():
            finished = self.connection.execute(self.finish_sql, self._ended(done), prepare=True)
            claimed = self.connection.execute(
                self.claim_sql,
                {
                    "queue": "default",
                    "hints": [self.hint] * LANES,
                    "worker": self.worker,
                    "size": size,
                },
                prepare=True,
            )
            if len(finished.fetchall()) != len(done):
                raise RuntimeError("a finish touched fewer rows than it named")
            return claimed.fetchall()

    def _ended(self, done: list[Row]) -> dict[str, Any]:
        return {
            "ids": [row[0] for row in done],
            "attempts": [row[2] for row in done],
            "durations": [12] * len(done),
            "results": ['{"ok": true}'] * len(done),
            "tids": [row[3] for row in done],
            "worker": self.worker,
        }
