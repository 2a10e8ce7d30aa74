"""The server dies under load, comes back, and everything that was accepted ends well."""

from __future__ import annotations

import os
import signal
import threading

import psycopg
import pytest

from rota.embedded import EmbeddedPostgres
from rota.testing import eventually_sync
from tests.conftest import SHORT
from tests.database import tcp_url
from tests.embedded.places import is_alive, server_pid
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


class Enqueuer(threading.Thread):
    """Enqueues in small transactions, and keeps the ids of those whose commit was answered."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.accepted: list[int] = []
        self.is_done = threading.Event()

    def run(self) -> None:
        while not self.is_done.wait(0.01):
            try:
                with psycopg.connect(self._url, autocommit=True) as conn:
                    while not self.is_done.wait(0.005):
                        self._enqueue(conn)
            except psycopg.Error:
                continue

    def _enqueue(self, conn: psycopg.Connection[tuple[int]]) -> None:
        rows = conn.execute(
            "SELECT rota.enqueue('quick', jsonb_build_object('n', i)) FROM generate_series(1, 5) i"
        ).fetchall()
        self.accepted += [run for (run,) in rows]

    def stop(self) -> None:
        self.is_done.set()
        self.join(20)


def kill(server: EmbeddedPostgres, number: signal.Signals) -> None:
    pid = server_pid(server.home)
    os.kill(pid, number)
    eventually_sync(lambda: not is_alive(pid))


def test_workers_go_on_by_themselves(own_server: EmbeddedPostgres) -> None:
    url = tcp_url(own_server)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE gate (is_open boolean)")
    workers = [WorkerProcess(url, "tests.apps.chaos:app", SHORT) for _ in range(2)]
    enqueuer = Enqueuer(url)
    try:
        for worker in workers:
            worker.wait_ready()
        enqueuer.start()
        for number in (signal.SIGQUIT, signal.SIGKILL):
            accepted = len(enqueuer.accepted)
            eventually_sync(lambda n=accepted: len(enqueuer.accepted) > n + 200, timeout=60)
            kill(own_server, number)
            own_server.start()
        accepted = len(enqueuer.accepted)
        eventually_sync(lambda: len(enqueuer.accepted) > accepted + 200, timeout=60)
        enqueuer.stop()
        with psycopg.connect(url, autocommit=True) as conn:
            check(Engine(conn), enqueuer.accepted)
        assert [worker.returncode for worker in workers] == [None, None]
    finally:
        enqueuer.stop()
        for worker in workers:
            worker.close()


def check(engine: Engine, accepted: list[int]) -> None:
    eventually_sync(lambda: engine.one("SELECT count(*) = 0 FROM rota.open_runs"), timeout=60)
    rows = engine.rows(
        "SELECT state, count(*) AS n FROM rota.runs WHERE id = ANY (%s) GROUP BY state", accepted
    )
    assert rows == [{"state": "succeeded", "n": len(accepted)}]
    assert engine.one("SELECT count(*) = count(DISTINCT id) FROM rota.runs") is True
