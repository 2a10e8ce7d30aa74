"""Many claimers with leases that run out all the time: nobody's work is done twice, nothing is
lost, and run and attempts never disagree."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine, Row

pytestmark = pytest.mark.slow

Connect = Callable[..., psycopg.Connection[Any]]
RUNS = 20_000
CLAIMERS = 16


class Crowd:
    """Threads that work until everything has ended, or one of them meets an error."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.accepted: Counter[int] = Counter()
        self.is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def add(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.errors.append(error)
                self.is_over.set()

        self._threads.append(threading.Thread(target=guarded, daemon=True))

    def count(self, ids: list[int]) -> None:
        with self._lock:
            self.accepted.update(ids)

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a thread hangs"
        assert self.errors == []


class Claimer:
    """A worker by SQL that is now and then too slow for its lease."""

    def __init__(self, engine: Engine, crowd: Crowd, seed: int) -> None:
        self._engine = engine
        self._crowd = crowd
        self._random = random.Random(seed)
        self._worker = engine.worker(lease=0.4)
        self._batch = 0
        self._ahead: list[Row] = []

    def work(self) -> None:
        while not self._crowd.is_over.is_set():
            try:
                self._turn()
            except psycopg.Error as error:
                if error.sqlstate != "RO006":
                    raise
                # Lost: everything goes with the old identity.
                self._worker, self._ahead = self._engine.worker(lease=0.4), []
                self._batch = 0

    def _turn(self) -> None:
        chance = self._random.random()
        if chance < 0.2:
            self._end(self._engine.claim_suspect(self._worker))
            return
        self._batch += 1
        started = self._ahead
        self._ahead = self._engine.claim(
            self._worker, self._random.randint(1, 80), batch=self._batch,
            start_batch=self._batch - 1 or None,
        )  # fmt: skip
        if chance < 0.24:
            time.sleep(0.5)  # slower than the lease: whatever it writes now must count only once
        elif chance < 0.9:
            self._engine.beat(self._worker)
        self._end(started)

    def _end(self, claims: list[Row]) -> None:
        failed = [claim for claim in claims if self._random.random() < 0.01]
        done = [claim for claim in claims if claim not in failed]
        self._random.shuffle(done)
        for claim in failed:
            self._again(lambda claim=claim: self._engine.requeue(self._worker, claim))
        if done:
            self._crowd.count(self._again(lambda: self._engine.succeed(self._worker, *done)))

    def _again(self, write: Callable[[], list[int]]) -> list[int]:
        """A rescue holds a row of the batch: as the feed does, ask until it is known whose."""
        while True:
            try:
                return write()
            except psycopg.errors.LockNotAvailable:
                continue


def rescue_until_over(engine: Engine, crowd: Crowd) -> None:
    while not crowd.is_over.wait(0.05):
        engine.mark_lost()
        engine.rescue(200, everywhere=random.random() < 0.1)
        if engine.one("SELECT NOT EXISTS (SELECT FROM rota.open_runs)"):
            crowd.is_over.set()


def test_claimers_with_tiny_leases(engine: Engine, connect: Connect) -> None:
    engine.conn.execute(
        "SELECT count(*) FROM rota.enqueue_many(ARRAY['work'],"
        f" ARRAY(SELECT '{{}}'::jsonb FROM generate_series(1, {RUNS})))".encode()
    )
    crowd = Crowd()
    for seed in range(CLAIMERS):
        crowd.add(Claimer(Engine(connect()), crowd, seed).work)
    for _ in range(2):
        crowd.add(partial(rescue_until_over, Engine(connect()), crowd))
    crowd.run()
    check_history(engine, crowd)


def check_history(engine: Engine, crowd: Crowd) -> None:
    assert engine.one("SELECT count(*) FROM rota.open_runs") == 0
    counts = engine.rows("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM rota.ended_runs")
    assert counts == [{"n": RUNS, "ids": RUNS}]
    assert engine.rows("SELECT DISTINCT state FROM rota.runs") == [{"state": "succeeded"}]
    assert len(crowd.accepted) == RUNS, "each end was accepted by somebody"
    assert set(crowd.accepted.values()) == {1}, "and by nobody else"
    assert engine.one("SELECT count(*) FROM rota.past_attempts WHERE state = 'lost'") > 0
    wrong = engine.rows(
        """
        SELECT r.id FROM rota.ended_runs r LEFT JOIN rota.past_attempts p ON p.run_id = r.id
        GROUP BY r.id, r.attempt, r.attempts_used
        HAVING count(p.*) <> count(DISTINCT p.attempt)
            OR max(p.attempt) >= r.attempt
            OR r.attempts_used <> 1 + count(p.*) FILTER (WHERE p.is_spent)
        """
    )
    assert wrong == []


KEYS = [f"k{n}" for n in range(60)]


def enqueue_keys(engine: Engine, seed: int, left: threading.Semaphore) -> None:
    chance = random.Random(seed)
    try:
        for _ in range(40):
            conflict = chance.choice(["return", "replace"])
            engine.conn.execute(
                "SELECT count(*) FROM rota.enqueue_many(ARRAY['work'], %s::text[]::jsonb[],"
                " keys => %s, on_conflicts => %s, key_seconds => %s)",
                [["{}"] * 40, chance.sample(KEYS, 40), [conflict] * 40, [None, 0.001] * 20],
            )
    finally:
        left.release()


def finish_all(engine: Engine, seed: int, crowd: Crowd) -> None:
    chance = random.Random(seed)
    worker = engine.worker(lease=600)
    waiting: list[Row] = []
    while not crowd.is_over.is_set():
        waiting += engine.claim(worker, chance.randint(1, 30))
        chance.shuffle(waiting)
        try:
            done = set(engine.succeed(worker, *waiting))
        except psycopg.errors.LockNotAvailable:
            continue
        crowd.count(list(done))
        waiting = [claim for claim in waiting if claim["id"] not in done]


def end_when_empty(engine: Engine, crowd: Crowd, left: threading.Semaphore, count: int) -> None:
    for _ in range(count):
        assert left.acquire(timeout=100)
    while not crowd.is_over.wait(0.02):
        if engine.one("SELECT NOT EXISTS (SELECT FROM rota.open_runs)"):
            crowd.is_over.set()


def test_bulk_enqueues_with_keys_against_batched_finishes(engine: Engine, connect: Connect) -> None:
    """Everybody shuffles: the order is the functions' own business."""
    crowd, left = Crowd(), threading.Semaphore(0)
    for seed in range(4):
        crowd.add(partial(enqueue_keys, Engine(connect()), seed, left))
        crowd.add(partial(finish_all, Engine(connect()), seed, crowd))
    crowd.add(partial(end_when_empty, engine, crowd, left, 4))
    crowd.run()
    assert set(crowd.accepted.values()) == {1}
    orphans = "SELECT count(*) FROM rota.keys WHERE expires_at IS NULL"
    assert engine.one(orphans) == 0, "a key outlived its run"
